package consul

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxPinned is how many leases one renewal can be pinned to, besides the session and its
// heartbeat key.
const maxPinned = (MaxOps - 2) / 2

// Renew implements [backend.Backend]. One write of the session's heartbeat key renews all leases.
// It requires that the session lives, and that the heartbeat key and the lock and record of
// each lease have the expected indexes. For too many leases it reads election/changes instead.
// If members have changed a lease, and once in a while, a consistent read verifies the leases
// afterwards. See docs/design/consul.md, "Renewal".
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	what := describe("renew", len(held), held[0].Election)
	if err := b.enter(ctx, what, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	select { // one renewal at a time, since each depends on the last
	case b.renewMutex <- struct{}{}:
		defer func() { <-b.renewMutex }()
	case <-ctx.Done():
		return nil, b.wrap(what, ctx.Err())
	}
	r := renewal{b, held, make([]backend.Answer, len(held))}
	if err := r.run(ctx); err != nil {
		return r.answers, b.wrap(what, err)
	}
	// Renew the session in case nothing announces this process. A failure shows later; it
	// must not delay the answers for long.
	ctx, cancel := context.WithTimeout(ctx, max(held[0].TTL, time.Second)/16)
	defer cancel()
	b.renewSessionIfDue(ctx, 2)
	return r.answers, nil
}

// A renewal is one call of Renew.
type renewal struct {
	*Backend
	held    []backend.Held
	answers []backend.Answer
}

// maxAttempts is how often a call tries a write that lost a race.
const maxAttempts = 5

func (r renewal) run(ctx context.Context) error {
	for range maxAttempts {
		session := r.session.get() // empty: it has ended, and its leases are lost
		open, err := r.selectHeld(ctx, session)
		if err != nil || len(open) == 0 {
			return err
		}
		names := make([]string, len(open))
		for n, i := range open {
			names[n] = r.held[i].Election
		}
		next, index := r.heartbeats.nextWrite(names)
		if index == 0 {
			if err := r.reread(ctx, session); err != nil {
				return err
			}
			continue
		}
		ok, changesIndex, err := r.write(ctx, session, open, next, index)
		switch {
		case err != nil:
			return err
		case !ok:
		case len(open) > maxPinned:
			return r.verify(ctx, session, open, &next, changesIndex)
		default:
			r.granted(open, &next)
			return nil
		}
	}
	return ErrConflict
}

// selectHeld returns the leases to renew, as far as this process knows them. It reads the others,
// and refuses those that are not held.
func (r renewal) selectHeld(ctx context.Context, session string) (open []int, err error) {
	var unknown []string
	var unknownAt []int
	for i, l := range r.held {
		if r.answers[i].Outcome != backend.Unknown || r.answers[i].Err != nil {
			continue
		}
		h, ok := r.heartbeats.lookup(l.Election)
		if ok && h.entry != nil && h.heldBy(session, l.Holder.Nonce, l.Term) && !h.deposed() {
			open = append(open, i)
		} else {
			unknown, unknownAt = append(unknown, l.Election), append(unknownAt, i)
		}
	}
	if unknown == nil {
		return open, nil
	}
	entries, err := r.read(ctx, unknown, true)
	if err != nil {
		return nil, err
	}
	for n, i := range unknownAt {
		if l, e := r.held[i], entries[n]; e.heldBy(session, l.Holder.Nonce, l.Term) && !e.deposed() {
			r.heartbeats.markHeld(e, 0, time.Time{})
			open = append(open, i)
		} else {
			r.answers[i] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
		}
	}
	return open, nil
}

// write gives the leases a fresh heartbeat. If Consul refuses, the keys in question are read
// again. For many leases it returns the index of election/changes at the moment of the write.
func (r renewal) write(ctx context.Context, session string, open []int, next lease.Session, index uint64) (ok bool, changesIndex uint64, err error) {
	key, sent := r.keys.heartbeat+session, time.Now()
	ops := api.KVTxnOps{
		{Verb: api.KVCheckSession, Key: key, Session: session},
		{Verb: api.KVCAS, Key: key, Index: index, Value: encode(next)},
	}
	before := len(ops)
	if len(open) <= maxPinned {
		for _, i := range open {
			h, _ := r.heartbeats.lookup(r.held[i].Election)
			if h.entry == nil { // released during the renewal, against the contract
				return false, 0, ErrConflict
			}
			ops = append(ops, pin(h.lockPair.Key, h.lockPair), pin(h.termPair.Key, h.termPair))
		}
	} else {
		ops = append(ops, GetOp(r.keys.changes))
		ops = append(ops, r.announced.piggyback(r.keys.member, sent)...)
	}
	r.heartbeats.recordWrite(next, 0) // unknown until the answer
	ok, answer, err := r.agent.Txn(ctx, ops)
	switch {
	case err != nil:
		return false, 0, err
	case ok:
		var now uint64
		for _, pair := range answer.Results {
			switch {
			case pair == nil:
			case pair.Key == key:
				now = max(now, pair.ModifyIndex)
			case pair.Key == r.keys.changes:
				changesIndex = pair.ModifyIndex
			}
		}
		r.heartbeats.recordWrite(next, now)
		if slices.ContainsFunc(ops, func(op *api.KVTxnOp) bool { return op.Verb == api.KVSet }) {
			r.announced.piggybacked(sent)
		}
		return true, changesIndex, nil
	}
	for _, e := range answer.Errors {
		if n := (e.OpIndex - before) / 2; e.OpIndex >= before && n < len(open) && len(open) <= maxPinned {
			r.heartbeats.invalidate(r.held[open[n]].Election)
		}
	}
	if err := Refusal(answer); backend.Class(r.wrap("", err)) == backend.ErrDenied {
		return false, 0, err
	}
	return false, 0, nil
}

// reread reads the heartbeat key after a write that was not confirmed.
func (b *Backend) reread(ctx context.Context, session string) error {
	key := b.keys.heartbeat + session
	pairs, err := b.readKeys(ctx, api.KVTxnOps{GetOp(key)})
	if err != nil {
		return err
	}
	pair := pairs[key]
	var value lease.Session
	if pair == nil || pair.Session != session || !decode(pair, &value) || value.Nonce != string(b.owner.Nonce()) || pair.ModifyIndex < b.heartbeats.highestIndex() {
		b.forgetSession(session) // the session has ended, or its key was edited
		return nil
	}
	b.heartbeats.recordWrite(value, pair.ModifyIndex)
	return nil
}

// verifyAfterSixths is the part of a TTL during which many leases are renewed without looking
// for manual edits.
const verifyAfterSixths = 5 // sixths

// verify confirms many leases after the heartbeat was written, when election/changes had that
// index. Leases that were verified since the last change by a member, and not long ago, are
// confirmed at once; otherwise all are read. If the heartbeat was written for a lease that is
// no longer held, challengers wait a little longer, and nobody trusts it.
func (r renewal) verify(ctx context.Context, session string, open []int, next *lease.Session, changesIndex uint64) error {
	var certain, rest []int
	for _, i := range open {
		h, _ := r.heartbeats.lookup(r.held[i].Election)
		if h.entry != nil && changesIndex != 0 && h.changesIndex == changesIndex && within(h.at, duration(h.lock.TTL)*verifyAfterSixths/6) {
			certain = append(certain, i)
		}
	}
	asked := time.Now()
	var pairs map[string]*api.KVPair
	var err error
	if len(certain) < len(open) {
		pairs, err = r.listLeases(ctx, changesIndex, true)
	}
	if pairs == nil {
		r.granted(certain, next)
		return err
	}
	for _, i := range open {
		l := r.held[i]
		h, _ := r.heartbeats.lookup(l.Election)
		lockPair, termPair := pairs[r.keys.lock+l.Election], pairs[r.keys.term+l.Election]
		if h.entry != nil && lockPair != nil && termPair != nil && lockPair.ModifyIndex == h.lockPair.ModifyIndex && termPair.ModifyIndex == h.termPair.ModifyIndex {
			r.heartbeats.markHeld(h.entry, changesIndex, asked) // unchanged
			rest = append(rest, i)
			continue
		}
		e := &entry{name: l.Election, lockPair: lockPair, termPair: termPair, renewals: next}
		e.parse()
		e.classify(r.owner.Nonce(), true, &r.memory, time.Now())
		if e.heldBy(session, l.Holder.Nonce, l.Term) && !e.deposed() {
			r.heartbeats.markHeld(e, changesIndex, asked)
			rest = append(rest, i)
		} else {
			r.heartbeats.invalidate(l.Election)
			r.answers[i] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
		}
	}
	r.granted(rest, next)
	return nil
}

// granted answers the renewed leases.
func (r renewal) granted(open []int, next *lease.Session) {
	self, now := r.owner.Nonce(), time.Now()
	for _, i := range open {
		l := r.held[i]
		h, _ := r.heartbeats.lookup(l.Election)
		if h.entry == nil {
			continue // outcome unknown
		}
		e := *h.entry
		e.renewals = next
		validFor := min(l.TTL, duration(e.lock.TTL)) // never longer than challengers watch
		r.answers[i] = backend.Answer{Lease: e.leaseFor(self, &r.memory, now), Outcome: backend.Granted, ValidFor: validFor}
	}
}
