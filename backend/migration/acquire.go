package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// An attempt is one bid on its way through both stores.
type attempt struct {
	bid    backend.Bid // Expected and MinTerm are set anew for each store
	pair   pair        // as it was read
	got    [2]backend.Answer
	answer *backend.Answer // for the caller
}

// Acquire implements [backend.Backend]. It reads both stores, and bids for the old lease and
// then for the new one. It releases a lease whose other half it did not get. At stage To it
// seals the old store if that is not done yet.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, "acquire", bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.stores[older].Acquire(ctx, bids)
	}
	if err := read(ctx, b, bids, func(bid backend.Bid) string { return bid.Election }); err != nil {
		return nil, wrap("acquire", err)
	}

	answers := make([]backend.Answer, len(bids))
	newOnly, both, leftovers := b.judge(bids, answers)
	b.releaseHalves(ctx, leftovers)
	newErr := b.acquireNew(ctx, newOnly)
	bothErr := b.acquireBoth(ctx, both)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range answers {
		if answers[i].Outcome == backend.Refused { // others may have read since
			answers[i].Lease = b.pairs[bids[i].Election].combined
		}
	}
	return answers, wrap("acquire", errors.Join(newErr, bothErr))
}

// judge answers bids that cannot succeed, and returns those that need the new lease or both. It also returns
// leftovers: refused bids after an earlier one that has left half of what it needed.
func (b *Backend) judge(bids []backend.Bid, answers []backend.Answer) (newOnly, both, leftovers []*attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for i, bid := range bids {
		t := &attempt{bid: bid, pair: *b.pairs[bid.Election], answer: &answers[i]}
		p := &t.pair
		mine := p.combined.Holder.Nonce == bid.Candidate.Nonce

		switch moved := b.movedElsewhere(p); {
		case p.combined.Election == "": // the old store is needed, and could not be read
			t.fail("%w: %s does not answer, so it is not known whether it is sealed",
				backend.ErrUnavailable, b.names[older])
		case moved != "":
			t.refuse(p.combined)
			t.fail("%w: the election has moved to %s, and this process migrates from %s to %s",
				backend.ErrDenied, moved, b.names[older], b.names[newer])
		case b.ambiguous(p):
			t.fail("%w: the election came to %s from another store called %q: give this one another to_name",
				backend.ErrDenied, b.names[older], b.names[newer])
		case !mine && !p.combined.Unchanged(bid.Expected): // a late call must not release what we lead by
			t.refuse(p.combined)
		case b.newDecides(p):
			newOnly = append(newOnly, t)
		case p.half[newer].remaining(now) == 0 && p.half[older].remaining(now) == 0:
			both = append(both, t)
		default: // a bid for one half alone would be of no use
			t.refuse(p.combined)
			if mine {
				t.got[older].Outcome = backend.Granted // either may be, in whatever term
				t.got[newer].Outcome = backend.Granted
				leftovers = append(leftovers, t)
			}
		}
	}
	return newOnly, both, leftovers
}

func (t *attempt) refuse(l backend.Lease) {
	*t.answer = backend.Answer{Lease: l, Outcome: backend.Refused}
}

func (t *attempt) fail(format string, args ...any) {
	t.answer.Err = fmt.Errorf("migration: acquire %q: %w", t.bid.Election, fmt.Errorf(format, args...))
}

// acquireNew bids for the new lease alone. The record of the seal is part of what the store
// compares: see [backend.Lease.Unchanged]. With Unsealed it writes the unsealed mark before
// this process leads: the mark tells members that go back to seal the new store.
func (b *Backend) acquireNew(ctx context.Context, attempts []*attempt) error {
	for _, t := range attempts {
		t.bid.Expected = t.pair.half[newer].Lease
		t.got[older].Outcome = backend.Refused // no bid is made there
	}
	err := b.bid(ctx, newer, attempts)

	marked, markErr := b.mark(ctx, newer, attempts, func(_ *attempt, h *backend.Held) {
		if h.MovedFrom != b.names[older] {
			h.MovedFrom = b.unsealedMark()
		}
	})

	for _, t := range marked {
		*t.answer = t.got[newer]
		if t.got[newer].Outcome != backend.Unknown {
			t.answer.Lease = b.note(t)
		}
	}
	return errors.Join(err, markErr)
}

// acquireBoth bids for the old lease, and then for the new one in the same term.
func (b *Backend) acquireBoth(ctx context.Context, attempts []*attempt) error {
	now, left := time.Now(), time.Minute
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	reserved, cancel := context.WithTimeout(ctx, left*3/4) // the rest is to release the old lease
	defer cancel()

	// The term must exceed those that are known and the clock by so much that neither store gives out a
	// greater one on its own, because its clock is ahead of ours, or because time passes until our last bid.
	lead := uint64(max(left, 2*time.Second).Microseconds())
	attempts = b.preflight(reserved, attempts)
	for _, t := range attempts {
		known := max(t.bid.MinTerm, t.pair.half[older].Term, t.pair.half[newer].Term, uint64(now.UnixMicro()))
		t.bid.Expected, t.bid.MinTerm = t.pair.half[older].Lease, known+lead
		t.got[newer].Outcome = backend.Refused // until a bid is made there
	}
	oldErr := b.bid(reserved, older, attempts)

	var next, complete, half []*attempt
	for _, t := range attempts {
		if t.got[older].Outcome == backend.Granted {
			t.bid.Expected, t.bid.MinTerm = t.pair.half[newer].Lease, t.got[older].Term-1
			next = append(next, t)
		}
	}
	newErr := b.bid(reserved, newer, next)
	agreeErr := b.agree(reserved, next)

	for _, t := range attempts {
		if t.hasBoth() && b.agreed(t) {
			complete = append(complete, t)
		} else {
			half = append(half, t)
		}
	}
	b.releaseHalves(ctx, half)

	setMarks := b.unseal
	if b.stage == To {
		setMarks = b.seal
	}
	return errors.Join(oldErr, newErr, agreeErr, setMarks(ctx, complete))
}

func (t *attempt) hasBoth() bool {
	return t.got[older].Outcome == backend.Granted && t.got[newer].Outcome == backend.Granted
}

// preflight returns the attempts that the new store would grant if the lease were free
// ([backend.Preflighter]), once it has this process's member record. No bid is made in the old store for the
// others. The new store is asked once for each election: a member bids again and again in a queue.
func (b *Backend) preflight(ctx context.Context, attempts []*attempt) (ready []*attempt) {
	var untested []*attempt
	var bids []backend.Bid
	for _, t := range attempts {
		if t.pair.preflighted {
			ready = append(ready, t)
		} else {
			untested, bids = append(untested, t), append(bids, t.bid)
		}
	}
	if untested == nil {
		return ready
	}

	b.mu.Lock()
	store, member := b.stores[newer], b.announced
	b.mu.Unlock()
	if member.Nonce == "" { // a bid may come before the first announcement
		member = backend.Member{Candidate: bids[0].Candidate, TTL: bids[0].TTL, Stage: string(b.stage)}
	}
	errs := make([]error, len(bids))
	if err := store.Announce(ctx, member); err != nil {
		errs = slices.Repeat([]error{err}, len(bids))
	} else if p, ok := store.(backend.Preflighter); ok {
		errs = p.Preflight(ctx, bids)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range untested {
		if errs[i] != nil {
			t.fail("the new store %s cannot be used: %w", b.names[newer], errs[i])
			continue
		}
		b.pairs[t.bid.Election].preflighted = true
		ready = append(ready, t)
	}
	return ready
}

// agreed reports whether a leadership has the same term in both stores, so that either can
// fence it. At stage To only the new store's term counts.
func (b *Backend) agreed(t *attempt) bool {
	return t.got[newer].Term == t.got[older].Term || b.stage == To
}

// agree raises the lesser of two terms by another bid for a lease that we hold: a store may
// have given out a greater term than the bid asked for.
func (b *Backend) agree(ctx context.Context, attempts []*attempt) (err error) {
	for range 4 {
		for s := range b.stores {
			var lesser []*attempt
			for _, t := range attempts {
				if most := t.got[1-s].Term; t.hasBoth() && !b.agreed(t) && t.got[s].Term < most {
					t.bid.Expected, t.bid.MinTerm = t.got[s].Lease, most-1
					lesser = append(lesser, t)
				}
			}
			err = errors.Join(err, b.bid(ctx, s, lesser))
		}
	}
	return err
}

// bid makes the bids of attempts in one store.
func (b *Backend) bid(ctx context.Context, s side, attempts []*attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	bids := make([]backend.Bid, len(attempts))
	for i, t := range attempts {
		bids[i] = t.bid
	}
	answers, err := b.stores[s].Acquire(ctx, bids)
	for i, t := range attempts {
		t.got[s] = item(answers, i, err)
	}
	return err
}

// seal seals the old store for attempts at stage To that hold both leases, and then writes the record into
// the new one, which allows members to lead by that alone. So the record exists only while the seal does.
func (b *Backend) seal(ctx context.Context, attempts []*attempt) error {
	record := b.names[older]
	if b.unsealed && !keepsMarks(b.stores[older]) {
		record = b.unsealedMark()
	}
	sealed, oldErr := b.mark(ctx, older, attempts, func(_ *attempt, h *backend.Held) {
		h.MovedTo = b.names[newer]
	})
	recorded, newErr := b.mark(ctx, newer, sealed, func(_ *attempt, h *backend.Held) {
		h.MovedTo, h.MovedFrom = "", record
	})

	var needless []backend.Held
	for _, t := range recorded {
		b.grant(t)
		l := t.got[older].Held()
		l.End = backend.Released
		needless = append(needless, l)
	}
	b.releaseBoth(ctx, [2][]backend.Held{older: needless}) // if this fails, they expire
	return backend.Join(oldErr, newErr)
}

// unseal grants leadership at stage Both to attempts that hold both leases. On the way back it first
// clears the record and seals the new store, and then removes the old seal.
func (b *Backend) unseal(ctx context.Context, attempts []*attempt) error {
	cleared, newErr := b.mark(ctx, newer, attempts, func(t *attempt, h *backend.Held) {
		// Members at To lead by a record under whatever name of the old store.
		recorded := h.MovedFrom == b.names[older] || h.MovedFrom != "" && h.MovedTo == ""
		if recorded || t.got[older].MovedTo != "" {
			h.MovedTo, h.MovedFrom = b.names[older], ""
		}
	})
	unsealed, oldErr := b.mark(ctx, older, cleared, func(_ *attempt, h *backend.Held) { h.MovedTo = "" })

	for _, t := range unsealed {
		b.grant(t)
	}
	return backend.Join(oldErr, newErr)
}

// keepsMarks reports whether a store can be marked.
func keepsMarks(store backend.Backend) bool {
	_, ok := store.(backend.Marker)
	return ok
}

// mark changes the marks of leases that one store has granted, and returns the attempts without those whose
// leases were lost, which it releases and answers. It skips stores without marks.
func (b *Backend) mark(
	ctx context.Context, s side, attempts []*attempt, change func(*attempt, *backend.Held),
) (done []*attempt, err error) {
	marker, marks := b.stores[s].(backend.Marker)
	var wrong []*attempt
	var held []backend.Held
	for _, t := range attempts {
		was := t.got[s].Held()
		h := was
		change(t, &h)
		if !marks || h == was || t.got[s].Outcome != backend.Granted {
			done = append(done, t)
		} else {
			wrong, held = append(wrong, t), append(held, h)
		}
	}
	if wrong == nil {
		return done, nil
	}

	answers, err := marker.Mark(ctx, held)
	var not []*attempt
	for i, t := range wrong {
		was, now := &t.got[s], item(answers, i, err)
		if now.Outcome != backend.Granted { // the lease is lost, or the mark may not be there
			was.Err = now.Err
			not = append(not, t)
			continue
		}
		now.ValidFor = min(was.ValidFor, now.ValidFor)
		*was = now
		done = append(done, t)
	}
	b.releaseHalves(ctx, not)
	return done, err
}

// grant answers an attempt that holds both leases, with their marks.
func (b *Backend) grant(t *attempt) {
	*t.answer = backend.Answer{
		Lease: b.note(t), Outcome: backend.Granted,
		ValidFor: min(t.got[older].ValidFor, t.got[newer].ValidFor),
	}
}
