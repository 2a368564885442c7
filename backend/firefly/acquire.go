package firefly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/consulagent"
)

// maxOps is the most operations of one transaction. Consul allows twice as many, but the greatest
// values would be too large together.
const maxOps = consulagent.MaxOps / 2

// sharedOps is the most operations of one grant, release or mark.
const sharedOps = 6

// Acquire implements [backend.Backend]. It renews the session and reads the leases. Then it makes one
// transaction for each chunk, which requires that the keys are as they were read.
func (f *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	what := describe("acquire", len(bids), bids[0].Election)
	if err := f.enter(ctx, what, bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	session, err := f.ensureSession(ctx, bids[0].Candidate)
	if err != nil {
		return answers, f.agent.Wrap(what, err)
	}
	var open []*claim
	for i, bid := range bids {
		if most := f.Guarantees().MaxTTL; bid.TTL > most || bid.TTL <= 0 {
			answers[i].Err = f.agent.Wrap(what, fmt.Errorf("%w: TTL is %v, the greatest is %v, the lesser of failover_delay and session_ttl", backend.ErrInvalid, bid.TTL, most))
			continue
		}
		open = append(open, &claim{at: i, bid: bid})
	}
	for part := range slices.Chunk(open, maxOps/sharedOps) {
		if err := f.tryClaims(ctx, session, part, answers); err != nil {
			return answers, f.agent.Wrap(what, err)
		}
	}
	return answers, nil
}

// A claim is one grant to be made.
type claim struct {
	*entry
	at     int // in the batch
	bid    backend.Bid
	record record
}

func electionsOfClaims(claims []*claim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.bid.Election
	}
	return names
}

// tryClaims makes one transaction for all claims. If that fails, it makes one for each.
func (f *Backend) tryClaims(ctx context.Context, session string, claims []*claim, answers []backend.Answer) error {
	locks, err := f.read(ctx, electionsOfClaims(claims))
	if err != nil {
		return err
	}
	var open []*claim
	var ops api.KVTxnOps
	for i, c := range claims {
		c.entry = locks[i]
		if !c.mine && !c.lease.Unchanged(c.bid.Expected) || c.lease.ObserveFor < 0 || c.lease.MovedTo != c.bid.Expected.MovedTo {
			answers[c.at] = backend.Answer{Lease: c.lease, Outcome: backend.Refused}
			continue
		}
		next, err := backend.NextTerm(max(c.lastTerm, c.bid.Expected.Term), c.dataLost, c.bid.MinTerm, time.Now())
		if err != nil {
			answers[c.at].Err = f.agent.Wrap(describe("acquire", 1, c.name), err)
			continue
		}
		c.prepare(session, next)
		ops = append(ops, f.claimOps(c, session)...)
		open = append(open, c)
	}
	if open == nil {
		return nil
	}
	for _, c := range open {
		if !f.mayHold(c.name) {
			f.markHeld(c.name, heldLock{})
		}
	}
	ok, answer, err := f.agent.Txn(ctx, ops)
	switch {
	case err != nil:
		return err // the outcomes are unknown
	case ok:
		f.granted(open, answer.Results, answers)
		return nil
	case len(open) > 1:
		for _, c := range open {
			if err := f.tryClaims(ctx, session, []*claim{c}, answers); err != nil {
				return err
			}
		}
		return nil
	case sessionEnded(answer):
		f.forgetSession(session)
		fallthrough
	case !errors.Is(consulagent.Refusal(answer), consulagent.ErrConflict):
		answers[open[0].at] = backend.Answer{Err: f.agent.Wrap(describe("acquire", 1, open[0].name), consulagent.Refusal(answer))}
		f.recordRefusal(open[0])
		return nil
	}
	return f.answerOutbid(ctx, open[0], answers)
}

// recordRefusal notes that a claim was certainly not granted.
func (f *Backend) recordRefusal(c *claim) {
	if !c.mine {
		f.remove(c.name)
	}
}

// answerOutbid answers a bid that came too late, with the lease as it is now.
func (f *Backend) answerOutbid(ctx context.Context, c *claim, answers []backend.Answer) error {
	locks, err := f.read(ctx, []string{c.name})
	if err != nil {
		return err
	}
	if c.entry = locks[0]; c.mine { // left over from an earlier bid whose answer was lost
		answers[c.at] = backend.Answer{Err: f.agent.Wrap(describe("acquire", 1, c.name), consulagent.ErrConflict)}
	} else {
		f.remove(c.name)
		answers[c.at] = backend.Answer{Lease: c.lease, Outcome: backend.Refused}
	}
	return nil
}

// prepare makes the record that the grant writes.
func (c *claim) prepare(session string, next uint64) {
	at, candidate, old := time.Now().UTC().Round(0), c.bid.Candidate, c.own
	old.close(backend.Failed, at, 0)
	c.record = record{
		Term: next, ID: candidate.ID, Nonce: string(candidate.Nonce), TTL: micros(c.bid.TTL), Heartbeat: lease.NewHeartbeat(), From: at, History: old.History,
		MovedTo: old.MovedTo, Moved: old.Moved,
		Address: candidate.Address, Metadata: candidate.Metadata, Renew: micros(c.bid.Renew), Session: session,
	}
	if c.sealed {
		c.record.Seal = old.Seal
	}
	if c.lease.LastID != "" && c.lease.Vacant() {
		c.record.Last = &past{c.lease.LastID, c.lease.End}
	} else if old.Term > 0 {
		c.record.Last = &past{old.ID, old.End}
	}
}

// claimOps returns one grant. It requires that both keys are as they were read, and locks them. It
// takes the lock from no session but this process's own. It does take our key from another
// session: without the lock, our key has no meaning.
func (f *Backend) claimOps(c *claim, session string) api.KVTxnOps {
	key, own := f.lock(c.name), f.record(c.name)
	ops := api.KVTxnOps{pin(key, c.lockPair), pin(own, c.ownPair)}
	if !c.sealed {
		ops = append(ops, transferOps(key, c.session, session, []byte(c.bid.Candidate.ID))...)
	}
	return append(ops, transferOps(own, c.ownLocker, session, encode(c.record))...)
}

// transferOps locks a key for one session, after unlocking it for another.
func transferOps(key, from, to string, value []byte) (ops api.KVTxnOps) {
	if from != "" && from != to {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: from, Value: value})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Session: to, Value: value})
}

// granted answers the claims of a transaction that was applied.
func (f *Backend) granted(claims []*claim, results []*api.KVPair, answers []backend.Answer) {
	at := make(map[string]uint64, len(results)) // a write that changed nothing has the former index
	for _, pair := range results {
		if pair != nil {
			at[pair.Key] = pair.ModifyIndex
		}
	}
	for _, c := range claims {
		session, keeper, index := c.record.Session, c.record.Session, at[f.lock(c.name)]
		if c.sealed {
			keeper, index = c.record.Seal, c.lockPair.ModifyIndex
		}
		f.markHeld(c.name, heldLock{c.record.Term, index})
		s := &entry{
			name: c.name, own: c.record, session: keeper, ownLocker: session,
			lockPair: &api.KVPair{Session: keeper, ModifyIndex: index, Value: []byte(c.bid.Candidate.ID)},
			ownPair:  &api.KVPair{Session: session, ModifyIndex: at[f.record(c.name)]},
		}
		f.classify(s)
		answers[c.at] = backend.Answer{Lease: s.lease, Outcome: backend.Granted, ValidFor: c.bid.TTL}
	}
}
