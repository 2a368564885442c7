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
	i    int // index in bids and answers
	bid  backend.Bid
	pair pair
	old  backend.Answer
	new  backend.Answer
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
	var newOnly, both, leftovers []*attempt
	b.mu.Lock()
	for i, bid := range bids {
		t := &attempt{i: i, bid: bid, pair: *b.pairs[bid.Election]}
		p, me := &t.pair, bid.Candidate.Nonce
		mine := p.combined.Holder.Nonce == me
		now := time.Now()
		switch {
		case p.combined.Election == "": // the old store is needed, and could not be read
			answers[i].Err = fmt.Errorf("migration: acquire %q: %w: %s does not answer, so it is not known whether it is sealed", bid.Election, backend.ErrUnavailable, b.oldName)
		case b.movedElsewhere(p) != "":
			answers[i] = backend.Answer{Lease: p.combined, Outcome: backend.Refused,
				Err: fmt.Errorf("migration: acquire %q: %w: the election has moved to %s, and this process migrates from %s to %s", bid.Election, backend.ErrDenied, b.movedElsewhere(p), b.oldName, b.newName)}
		case b.ambiguous(p):
			answers[i] = backend.Answer{
				Err: fmt.Errorf("migration: acquire %q: %w: the election came to %s from another store that is called %q: give this one another name (to_name)", bid.Election, backend.ErrDenied, b.oldName, b.newName)}
		case !mine && !p.combined.Unchanged(bid.Expected):
			answers[i] = backend.Answer{Lease: p.combined, Outcome: backend.Refused}
		case b.newDecides(p):
			newOnly = append(newOnly, t)
		case p.new.remaining(now) != 0 || p.old.remaining(now) != 0: // a bid for one half alone would be of no use
			answers[i] = backend.Answer{Lease: p.combined, Outcome: backend.Refused}
			if mine {
				leftovers = append(leftovers, t)
			}
		default:
			both = append(both, t)
		}
	}
	b.mu.Unlock()
	b.releaseLeftovers(ctx, leftovers, answers)
	err := errors.Join(b.acquireNew(ctx, newOnly, answers), b.acquireBoth(ctx, both, answers))
	if err != nil {
		err = fmt.Errorf("migration: acquire: %w", err)
	}
	return answers, err
}

// acquireNew bids for the new lease alone. The record of the seal is part of what the store
// compares: see [backend.Lease.Unchanged]. With Unsealed it writes the unsealed mark before
// this process leads: the mark tells members that go back to seal the new store.
func (b *Backend) acquireNew(ctx context.Context, attempts []*attempt, answers []backend.Answer) error {
	err := b.bid(ctx, b.new, attempts, func(t *attempt) (*backend.Answer, backend.Lease, uint64) {
		return &t.new, t.pair.new.Lease, t.bid.MinTerm
	})
	var unmarked []*attempt
	for _, t := range attempts {
		if t.new.Outcome == backend.Granted && t.new.MovedFrom != b.oldName && t.new.MovedFrom != b.unsealedMark() && keepsMarks(b.new) {
			t.old.Outcome = backend.Refused // no bid was made there
			unmarked = append(unmarked, t)
			continue
		}
		answers[t.i] = t.new
		if t.new.Outcome != backend.Unknown {
			answers[t.i].Lease = b.noteAnswers(t.bid.Election, &t.old, &t.new)
		}
	}
	if len(unmarked) == 0 {
		return err
	}
	marked, failed := b.mark(ctx, b.new, unmarked, answers, func(t *attempt) (*backend.Answer, string, string) { return &t.new, "", b.unsealedMark() })
	for _, t := range marked {
		answers[t.i] = t.new
		answers[t.i].Lease = b.noteAnswers(t.bid.Election, &t.old, &t.new)
	}
	return errors.Join(err, failed)
}

// acquireBoth bids for the old lease, and then for the new one in the same term.
func (b *Backend) acquireBoth(ctx context.Context, attempts []*attempt, answers []backend.Answer) error {
	if len(attempts) == 0 {
		return nil
	}
	now, lead := uint64(time.Now().UnixMicro()), termLead(ctx)
	// Time must be left to release the old lease if the new store hangs.
	reserved, cancel := withReserve(ctx)
	defer cancel()
	attempts = b.preflight(reserved, attempts, answers)
	err := b.bid(reserved, b.old, attempts, func(t *attempt) (*backend.Answer, backend.Lease, uint64) {
		return &t.old, t.pair.old.Lease, max(now, t.bid.MinTerm, t.pair.old.Term, t.pair.new.Term) + lead
	})
	var next []*attempt
	for _, t := range attempts {
		if t.old.Outcome == backend.Granted {
			next = append(next, t)
		} else {
			answers[t.i] = backend.Answer{Outcome: t.old.Outcome, Err: t.old.Err}
			if t.old.Outcome == backend.Refused {
				answers[t.i].Lease = b.noteAnswers(t.bid.Election, &t.old, &t.new)
			}
		}
	}
	if len(next) == 0 {
		return err
	}
	err = errors.Join(err, b.bid(reserved, b.new, next, func(t *attempt) (*backend.Answer, backend.Lease, uint64) {
		return &t.new, t.pair.new.Lease, max(t.old.Term, t.pair.new.Term+1, t.bid.MinTerm+1) - 1
	}))
	err = errors.Join(err, b.agree(reserved, next))
	var complete, half []*attempt
	for _, t := range next {
		if t.old.Outcome == backend.Granted && t.new.Outcome == backend.Granted && b.agreed(t) {
			complete = append(complete, t)
		} else {
			half = append(half, t)
		}
	}
	b.releaseHalves(ctx, half, answers)
	return errors.Join(err, b.seal(ctx, complete, answers))
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
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)*3/4)
}

// agreed reports whether a leadership has the same term in both stores, so that either can
// fence it. At stage To only the new store's term counts. Legacy layouts have no terms.
func (b *Backend) agreed(t *attempt) bool {
	return t.new.Term == t.old.Term || t.old.Term == 0 || b.stage == To
}

// agree raises the lesser of two terms by another bid for a lease that we hold: a store may
// have given out a greater term than the bid asked for.
func (b *Backend) agree(ctx context.Context, attempts []*attempt) (err error) {
	for range 4 {
		var olds, news []*attempt
		for _, t := range attempts {
			switch granted := t.old.Outcome == backend.Granted && t.new.Outcome == backend.Granted; {
			case !granted || b.agreed(t):
			case t.old.Term < t.new.Term:
				olds = append(olds, t)
			default:
				news = append(news, t)
			}
		}
		if len(olds)+len(news) == 0 {
			break
		}
		err = errors.Join(err,
			b.bid(ctx, b.old, olds, func(t *attempt) (*backend.Answer, backend.Lease, uint64) { return &t.old, t.old.Lease, t.new.Term - 1 }),
			b.bid(ctx, b.new, news, func(t *attempt) (*backend.Answer, backend.Lease, uint64) { return &t.new, t.new.Lease, t.old.Term - 1 }))
	}
	return err
}

// bid makes one bid in one store for each attempt. of returns where its answer goes, and the
// Expected and MinTerm of the bid.
func (b *Backend) bid(ctx context.Context, store backend.Backend, attempts []*attempt, of func(*attempt) (*backend.Answer, backend.Lease, uint64)) error {
	if len(attempts) == 0 {
		return nil
	}
	bids := make([]backend.Bid, len(attempts))
	for n, t := range attempts {
		bids[n] = t.bid
		_, bids[n].Expected, bids[n].MinTerm = of(t)
	}
	answers, err := store.Acquire(ctx, bids)
	for n, t := range attempts {
		a, _, _ := of(t)
		*a = item(answers, n, err)
	}
	return err
}

// granted is the answer to an attempt that holds all leases that it needs.
func (b *Backend) granted(t *attempt) backend.Answer {
	return backend.Answer{Outcome: backend.Granted, ValidFor: min(t.old.ValidFor, t.new.ValidFor), Lease: b.noteAnswers(t.bid.Election, &t.old, &t.new)}
}
