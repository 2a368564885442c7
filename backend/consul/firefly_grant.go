package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// sharedOps is how many operations one grant, release or move takes at most.
const sharedOps = 6

// enlist renews the session, or makes one if there is none.
func (f *Firefly) enlist(ctx context.Context, who backend.Candidate) (string, error) {
	b := f.base
	select {
	case b.session.turn <- struct{}{}:
		defer func() { <-b.session.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	f.know(who.ID)
	if id, err := f.alive(ctx); err != nil || id != "" {
		return id, err
	}
	sent := time.Now()
	id, err := b.create(ctx, &api.SessionEntry{
		Name: "le:" + who.ID, Behavior: api.SessionBehaviorRelease, TTL: f.fleet.SessionTTL.String(), LockDelay: f.fleet.FailoverDelay,
	})
	if err == nil {
		b.session.set(id, f.fleet.SessionTTL, sent)
	}
	return id, err
}

// alive renews the session and returns it, or "" if it has ended.
func (f *Firefly) alive(ctx context.Context) (string, error) {
	id := f.base.session.get()
	if id == "" {
		return "", nil
	}
	err := f.base.prolong(ctx, id)
	return f.base.session.get(), err
}

// Acquire implements [backend.Backend]: the session is renewed; one reading; one
// transaction that is pinned to what was read.
func (f *Firefly) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	what := about("acquire", len(bids), bids[0].Election)
	if err := f.base.enter(ctx, what, bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	session, err := f.enlist(ctx, bids[0].Candidate)
	if err != nil {
		return answers, f.base.fail(what, err)
	}
	var open []*claim
	for i, bid := range bids {
		if most := f.Guarantees().MaxTTL; bid.TTL > most || bid.TTL <= 0 {
			answers[i].Err = f.base.fail(what, fmt.Errorf("%w: TTL is %v, the greatest is %v, the lesser of silence and session_ttl", backend.ErrInvalid, bid.TTL, most))
			continue
		}
		open = append(open, &claim{at: i, bid: bid})
	}
	for part := range slices.Chunk(open, maxOps/sharedOps) {
		if err := f.claim(ctx, session, part, answers); err != nil {
			return answers, f.base.fail(what, err)
		}
	}
	return answers, nil
}

// A claim is one grant to be made.
type claim struct {
	*sharedLock
	at     int // in the batch
	bid    backend.Bid
	record leadershipRecord
}

func claimed(claims []*claim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.bid.Election
	}
	return names
}

// claim tries one transaction for all, and if that fails one for each.
func (f *Firefly) claim(ctx context.Context, session string, claims []*claim, answers []backend.Answer) error {
	locks, err := f.read(ctx, claimed(claims))
	if err != nil {
		return err
	}
	var open []*claim
	var ops api.KVTxnOps
	for i, c := range claims {
		c.sharedLock = locks[i]
		if !c.mine && !c.lease.Unchanged(c.bid.Expected) || c.lease.ObserveFor < 0 || c.lease.MovedTo != c.bid.Expected.MovedTo {
			answers[c.at] = backend.Answer{Lease: c.lease, Outcome: backend.Refused}
			continue
		}
		next, err := backend.NextTerm(max(c.last, c.bid.Expected.Term), c.lost, c.bid.MinTerm, time.Now())
		if err != nil {
			answers[c.at].Err = f.base.fail(about("acquire", 1, c.name), err)
			continue
		}
		c.draw(session, next)
		ops = append(ops, f.claimOps(c, session)...)
		open = append(open, c)
	}
	if open == nil {
		return nil
	}
	for _, c := range open {
		if !f.might(c.name) {
			f.noted(c.name, leadership{})
		}
	}
	ok, answer, err := f.base.txn(ctx, ops)
	switch {
	case err != nil:
		return err // the outcomes are unknown
	case ok:
		f.won(open, answer.Results, answers)
		return nil
	case len(open) > 1:
		for _, c := range open {
			if err := f.claim(ctx, session, []*claim{c}, answers); err != nil {
				return err
			}
		}
		return nil
	case sessionGone(answer):
		f.base.drop(session)
		fallthrough
	case !errors.Is(txnError(answer), errConflict):
		answers[open[0].at] = backend.Answer{Err: f.base.fail(about("acquire", 1, open[0].name), txnError(answer))}
		f.settled(open[0])
		return nil
	}
	return f.outbid(ctx, open[0], answers)
}

// settled notes that a claim was certainly not granted.
func (f *Firefly) settled(c *claim) {
	if !c.mine {
		f.gone(c.name)
	}
}

// outbid answers a bid that came too late: the lease as it is.
func (f *Firefly) outbid(ctx context.Context, c *claim, answers []backend.Answer) error {
	locks, err := f.read(ctx, []string{c.name})
	if err != nil {
		return err
	}
	if c.sharedLock = locks[0]; c.mine { // left over of an earlier bid whose answer was lost
		answers[c.at] = backend.Answer{Err: f.base.fail(about("acquire", 1, c.name), errConflict)}
	} else {
		f.gone(c.name)
		answers[c.at] = backend.Answer{Lease: c.lease, Outcome: backend.Refused}
	}
	return nil
}

// draw makes the record of the grant.
func (c *claim) draw(session string, next uint64) {
	at, who, old := time.Now().UTC().Round(0), c.bid.Candidate, c.own
	old.close(backend.Failed, at, 0)
	c.record = leadershipRecord{
		term: term{
			Term: next, ID: who.ID, Nonce: who.Nonce, TTL: micros(c.bid.TTL), Heartbeat: newHeartbeat(), From: at, History: old.History,
			MovedTo: old.MovedTo, Moved: old.Moved,
		},
		Address: who.Address, Metadata: who.Metadata, Renew: micros(c.bid.Renew), Session: session,
	}
	if c.sealed {
		c.record.Seal = old.Seal
	}
	if c.lease.LastID != "" && c.lease.Vacant() {
		c.record.Last = &past{c.lease.LastID, c.lease.LastNonce, c.lease.End}
	} else if old.Term > 0 {
		c.record.Last = &past{old.ID, old.Nonce, old.End}
	}
}

// claimOps is one grant: nothing that it rests on has changed, and both keys are
// locked. The lock is never taken out of anybody's hands but our own; our key is,
// since without the lock it means nothing.
func (f *Firefly) claimOps(c *claim, session string) api.KVTxnOps {
	key, own := f.lock(c.name), f.record(c.name)
	ops := api.KVTxnOps{pin(key, c.lockPair), pin(own, c.ownPair)}
	if !c.sealed {
		ops = append(ops, handOver(key, c.session, session, []byte(c.bid.Candidate.ID))...)
	}
	return append(ops, handOver(own, c.ownLocker, session, encode(c.record))...)
}

// handOver locks a key for a session, and before that unlocks it for another.
func handOver(key, from, to string, value []byte) (ops api.KVTxnOps) {
	if from != "" && from != to {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: from, Value: value})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Session: to, Value: value})
}

// won fills in the answers of a transaction that was applied.
func (f *Firefly) won(claims []*claim, results []*api.KVPair, answers []backend.Answer) {
	at := make(map[string]uint64, len(results)) // a write that changes nothing has the index that was there
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
		f.noted(c.name, leadership{c.record.Term, index})
		s := &sharedLock{
			name: c.name, own: c.record, session: keeper, ownLocker: session,
			lockPair: &api.KVPair{Session: keeper, ModifyIndex: index, Value: []byte(c.bid.Candidate.ID)},
			ownPair:  &api.KVPair{Session: session, ModifyIndex: at[f.record(c.name)]},
		}
		f.judge(s)
		answers[c.at] = backend.Answer{Lease: s.lease, Outcome: backend.Granted, ValidFor: c.bid.TTL}
	}
}

// Release implements [backend.Backend]. One reading, and one transaction that
// unlocks, which pays no lock-delay, and says how the leadership ended.
func (f *Firefly) Release(ctx context.Context, held []backend.Held) error {
	what := about("release", len(held), held[0].Election)
	if err := f.base.enter(ctx, what, ""); err != nil {
		return err
	}
	if f.base.guard.Nonce() == "" {
		return nil // it never held anything
	}
	for part := range slices.Chunk(held, both) {
		if err := f.release(ctx, part); err != nil {
			return f.base.fail(what, err)
		}
	}
	return nil
}

func (f *Firefly) release(ctx context.Context, held []backend.Held) error {
	for range attempts {
		names := make([]string, len(held))
		for i, l := range held {
			names[i] = l.Election
		}
		locks, err := f.read(ctx, names)
		if err != nil {
			return err
		}
		var todo []release
		for i, s := range locks {
			if ops := f.releaseOps(s, held[i]); ops != nil {
				todo = append(todo, release{held[i], ops})
			} else if !s.mine && (held[i].Term == 0 || f.termOf(s.name) == held[i].Term) {
				f.gone(s.name)
			}
		}
		held = nil
		for part := range slices.Chunk(todo, maxOps/sharedOps) {
			again, err := f.end(ctx, part)
			if err != nil {
				return err
			}
			held = append(held, again...)
		}
		if len(held) == 0 {
			return nil
		}
	}
	return errConflict
}

// A release is one to be made.
type release struct {
	lease backend.Held
	ops   api.KVTxnOps
}

// end tries one transaction for all, and if that fails one for each. It returns what
// has changed since it was read.
func (f *Firefly) end(ctx context.Context, todo []release) (again []backend.Held, err error) {
	var ops api.KVTxnOps
	for _, r := range todo {
		ops = append(ops, r.ops...)
	}
	ok, answer, err := f.base.txn(ctx, ops)
	switch {
	case err != nil:
		return nil, err
	case ok:
		for _, r := range todo {
			f.gone(r.lease.Election)
		}
		return nil, nil
	case len(todo) == 1:
		if err := txnError(answer); !errors.Is(err, errConflict) {
			return nil, err
		}
		return []backend.Held{todo[0].lease}, nil
	}
	for _, r := range todo {
		one, err := f.end(ctx, []release{r})
		if err != nil {
			return nil, err
		}
		again = append(again, one...)
	}
	return again, nil
}

// termOf is the term of what is known to be held, or 0.
func (f *Firefly) termOf(name string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.may[name].term
}

// releaseOps is one release, or nil if there is nothing to release. If a bid of
// ours may still be on its way to the servers, our key is touched, so that the bid
// finds another index and fails.
func (f *Firefly) releaseOps(s *sharedLock, l backend.Held) api.KVTxnOps {
	self, now := f.base.guard.Nonce(), time.Now().UTC().Round(0)
	key, own := f.lock(s.name), f.record(s.name)
	recorded := s.leaderships && s.own.Nonce == self
	locked := s.mine && !s.held // the lock is ours and our key does not say so
	next := s.own
	next.Heartbeat = newHeartbeat()
	switch {
	case recorded && l.Term != 0 && l.Term != s.own.Term, !recorded && !locked && !f.might(s.name), !recorded && !locked && l.Term != 0:
		return nil
	case !recorded && !locked: // on its way
		next.Heartbeat, next.Touch = s.own.Heartbeat, newHeartbeat()
		return api.KVTxnOps{{Verb: api.KVCAS, Key: own, Index: indexOf(s.ownPair), Value: encode(next)}}
	case locked:
		next.term = term{Term: max(s.last, l.Term), ID: s.lease.Holder.ID, Nonce: self, Heartbeat: newHeartbeat(), From: now, History: next.History,
			MovedTo: next.MovedTo, Moved: next.Moved}
	}
	next.close(l.End, now, l.Lapsed())
	next.Session, next.Created, next.Locks = "", 0, 0
	ops := api.KVTxnOps{pin(key, s.lockPair), pin(own, s.ownPair)}
	if s.mine && !s.sealed {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: s.session, Value: s.lockPair.Value})
		next.Created, next.Locks = s.lockPair.CreateIndex, s.lockPair.LockIndex
	}
	if s.ownLocker != "" {
		return append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: own, Session: s.ownLocker, Value: encode(next)})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: own, Index: indexOf(s.ownPair), Value: encode(next)})
}
