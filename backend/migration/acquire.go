package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// An attempt is one bid on its way through both stores.
type attempt struct {
	bid      backend.Bid // Expected and MinTerm are set anew for each store
	pair     pair        // as it was read
	old, new backend.Answer
	answer   *backend.Answer // for the caller
}

// answerOf is where an attempt keeps the answer of a store.
func (b *Backend) answerOf(t *attempt, store backend.Backend) *backend.Answer {
	if store == b.old {
		return &t.old
	}
	return &t.new
}

// Acquire implements [backend.Backend]. It reads both stores, and bids for the old lease and
// then for the new one. It releases a lease whose other half it did not get. At stage To it
// seals the old store if that is not done yet.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Acquire(ctx, bids)
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	if err := b.read(ctx, names); err != nil {
		return nil, fmt.Errorf("migration: acquire: %w", err)
	}

	answers := make([]backend.Answer, len(bids))
	newOnly, both, leftovers := b.judge(bids, answers)
	b.releaseHalves(ctx, leftovers)
	newErr := b.acquireNew(ctx, newOnly)
	bothErr := b.acquireBoth(ctx, both)
	if err := errors.Join(newErr, bothErr); err != nil {
		return answers, fmt.Errorf("migration: acquire: %w", err)
	}
	return answers, nil
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
			t.fail("%w: %s does not answer, so it is not known whether it is sealed", backend.ErrUnavailable, b.oldName)
		case moved != "":
			t.refuse(p.combined)
			t.fail("%w: the election has moved to %s, and this process migrates from %s to %s",
				backend.ErrDenied, moved, b.oldName, b.newName)
		case b.ambiguous(p):
			t.fail("%w: the election came to %s from another store that is called %q: give this one another name (to_name)",
				backend.ErrDenied, b.oldName, b.newName)
		case !mine && !p.combined.Unchanged(bid.Expected):
			t.refuse(p.combined)
		case b.newDecides(p):
			newOnly = append(newOnly, t)
		case p.new.remaining(now) == 0 && p.old.remaining(now) == 0:
			both = append(both, t)
		default: // a bid for one half alone would be of no use
			t.refuse(p.combined)
			if mine {
				t.old.Outcome, t.new.Outcome = backend.Granted, backend.Granted // either, in whatever term
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
		t.bid.Expected = t.pair.new.Lease
		t.old.Outcome = backend.Refused // no bid is made there
	}
	err := b.bid(ctx, b.new, attempts)

	var granted, done []*attempt
	for _, t := range attempts {
		if t.new.Outcome == backend.Granted {
			granted = append(granted, t)
		} else {
			done = append(done, t)
		}
	}
	marked, markErr := b.mark(ctx, b.new, granted, func(h *backend.Held) {
		if h.MovedFrom != b.oldName {
			h.MovedFrom = b.unsealedMark()
		}
	})

	for _, t := range append(done, marked...) {
		*t.answer = t.new
		if t.new.Outcome != backend.Unknown {
			t.answer.Lease = b.note(t)
		}
	}
	return errors.Join(err, markErr)
}

// acquireBoth bids for the old lease, and then for the new one in the same term.
func (b *Backend) acquireBoth(ctx context.Context, attempts []*attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	now, lead := uint64(time.Now().UnixMicro()), termLead(ctx)
	reserved, cancel := withReserve(ctx) // time must be left to release the old lease if the new store hangs
	defer cancel()

	attempts = b.preflight(reserved, attempts)
	for _, t := range attempts {
		t.bid.Expected = t.pair.old.Lease
		t.bid.MinTerm = max(now, t.bid.MinTerm, t.pair.old.Term, t.pair.new.Term) + lead
		t.new.Outcome = backend.Refused // until a bid is made there
	}
	oldErr := b.bid(reserved, b.old, attempts)

	var next, complete, half []*attempt
	for _, t := range attempts {
		if t.old.Outcome == backend.Granted {
			t.bid.Expected, t.bid.MinTerm = t.pair.new.Lease, t.old.Term-1
			next = append(next, t)
		}
	}
	newErr := b.bid(reserved, b.new, next)
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
	return t.old.Outcome == backend.Granted && t.new.Outcome == backend.Granted
}

// termLead is by how many microseconds a term for both stores exceeds the known terms and the
// clock. It must be so great that neither store gives out a greater term on its own, because
// its clock is ahead of ours, or because time passes until the last bid of this call.
func termLead(ctx context.Context) uint64 {
	lead := time.Minute
	if end, ok := ctx.Deadline(); ok {
		lead = max(2*time.Second, time.Until(end))
	}
	return uint64(lead.Microseconds())
}

// withReserve returns a context that ends after three quarters of the time that is left.
func withReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)*3/4)
	}
	return context.WithCancel(ctx)
}

// agreed reports whether a leadership has the same term in both stores, so that either can
// fence it. At stage To only the new store's term counts.
func (b *Backend) agreed(t *attempt) bool { return t.new.Term == t.old.Term || b.stage == To }

// agree raises the lesser of two terms by another bid for a lease that we hold: a store may
// have given out a greater term than the bid asked for.
func (b *Backend) agree(ctx context.Context, attempts []*attempt) (err error) {
	for range 4 {
		var olds, news []*attempt
		for _, t := range attempts {
			switch {
			case !t.hasBoth() || b.agreed(t):
			case t.old.Term < t.new.Term:
				t.bid.Expected, t.bid.MinTerm = t.old.Lease, t.new.Term-1
				olds = append(olds, t)
			default:
				t.bid.Expected, t.bid.MinTerm = t.new.Lease, t.old.Term-1
				news = append(news, t)
			}
		}
		err = errors.Join(err, b.bid(ctx, b.old, olds), b.bid(ctx, b.new, news))
	}
	return err
}

// bid makes the bids of attempts in one store.
func (b *Backend) bid(ctx context.Context, store backend.Backend, attempts []*attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	bids := make([]backend.Bid, len(attempts))
	for i, t := range attempts {
		bids[i] = t.bid
	}
	answers, err := store.Acquire(ctx, bids)
	for i, t := range attempts {
		*b.answerOf(t, store) = item(answers, i, err)
	}
	return err
}
