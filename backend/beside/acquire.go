package beside

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// An attempt is one bid on its way: for the inner lease first, then for the lock.
type attempt struct {
	bid    backend.Bid
	pair   pair
	answer *backend.Answer
}

// Acquire implements [backend.Backend]. It takes the inner leases, then the locks beside them. It releases
// a lease whose lock it did not get within this call.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.Enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	pairs, err := b.read(ctx, elections(bids, electionOf))
	if err != nil {
		return nil, err
	}

	answers, attempts := make([]backend.Answer, len(bids)), make([]*attempt, len(bids))
	for i, bid := range bids {
		attempts[i] = &attempt{bid: bid, pair: pairs[i], answer: &answers[i]}
	}
	passed, leftovers := b.judge(attempts)
	err = b.giveBack(ctx, leftovers)

	granted, bidErr := b.bid(ctx, passed)
	return answers, backend.Join(err, bidErr, b.take(ctx, granted), b.wait(ctx, pairs, bids))
}

func electionOf(b *backend.Bid) string { return b.Election }

// elections returns the name of each election, in their order.
func elections[T any](of []T, name func(*T) string) []string {
	names := make([]string, len(of))
	for i := range of {
		names[i] = name(&of[i])
	}
	return names
}

// wait waits for the locks that cannot be had yet.
func (b *Backend) wait(ctx context.Context, pairs []pair, bids []backend.Bid) error {
	var owned []Owned
	for i, bid := range bids {
		if s := &pairs[i].state; s.Firm && s.Err == nil {
			owned = append(owned, Owned{Election: bid.Election, ID: bid.Candidate.ID})
		}
	}
	if owned == nil {
		return nil
	}
	return b.lock.Wait(ctx, owned)
}

// judge refuses bids that cannot succeed before the inner lease is changed, which other members observe. It
// returns those that are made, and leftovers: those that are not, and whose lease is given back.
func (b *Backend) judge(attempts []*attempt) (passed, leftovers []*attempt) {
	for _, t := range attempts {
		p, now, bid := &t.pair, t.pair.lease(), t.bid
		leftover := !p.inner.Vacant() && p.inner.Holder.Nonce == bid.Candidate.Nonce
		// Also if it has changed: if this call comes late, the process may lead by it.
		anew := leftover && now.ObserveFor == 0 && now.MovedTo == bid.Expected.MovedTo

		switch {
		case p.state.Err != nil:
			t.answer.Err = p.state.Err
		case p.state.Firm && (p.state.Free || !p.ours()) && !leftover:
			*t.answer = backend.Answer{Lease: now, Outcome: backend.Refused}
		case p.state.Most > 0 && bid.TTL > p.state.Most:
			*t.answer = backend.Answer{Lease: now, Outcome: backend.Refused, Err: fmt.Errorf(
				"%s: acquire %q: %w: the lock can be relied on for %v, which is less than a TTL",
				b.name, bid.Election, backend.ErrUnavailable, p.state.Most)}
		case anew, now.Unchanged(bid.Expected):
			passed = append(passed, t)
		case leftover: // it must not be granted anew
			leftovers = append(leftovers, t)
		default:
			*t.answer = backend.Answer{Lease: now, Outcome: backend.Refused}
		}
	}
	return passed, leftovers
}

// bid bids for the inner leases, answers what is not granted, and returns the rest.
func (b *Backend) bid(ctx context.Context, attempts []*attempt) (granted []*attempt, err error) {
	if len(attempts) == 0 {
		return nil, nil
	}
	bids := make([]backend.Bid, len(attempts))
	for i, t := range attempts {
		bids[i] = t.bid
		bids[i].Expected = t.pair.inner // the inner Backend compares it again
	}

	got, err := b.inner.Acquire(ctx, bids)
	for i, a := range got {
		t := attempts[i]
		*t.answer = a
		switch a.Outcome {
		case backend.Granted:
			granted = append(granted, t)
		case backend.Refused:
			t.pair.inner = a.Lease
			t.answer.Lease = t.pair.lease()
		}
	}
	return granted, err
}

// take takes the locks beside leases that were just granted, if they are exactly as they were read before.
func (b *Backend) take(ctx context.Context, attempts []*attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	takings := make([]Taking, len(attempts))
	for i, t := range attempts {
		takings[i] = Taking{ownedBy(t.answer.Held()), t.pair.state}
	}
	b.mu.Lock()
	for _, t := range takings {
		b.takenIn[t.Election] = t.Term
	}
	b.mu.Unlock()

	results, err := b.lock.Take(ctx, takings)
	var back []*attempt
	for i, t := range attempts {
		r := result(results, i, err)
		t.pair.inner, t.pair.state = t.answer.Lease, r.State
		switch r.Outcome {
		case backend.Granted:
			t.answer.Lease, t.answer.ValidFor = t.pair.lease(), min(t.answer.ValidFor, r.ValidFor)
		case backend.Refused:
			t.answer.Err = r.Err
			back = append(back, t)
		default: // the lock may be ours: the manager releases what has no outcome, lock and lease
			*t.answer = backend.Answer{Err: r.Err}
		}
	}
	return backend.Join(err, b.giveBack(ctx, back))
}

// giveBack releases leases whose locks are somebody else's, or that must not be kept, and refuses the bids.
func (b *Backend) giveBack(ctx context.Context, attempts []*attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	held, names := make([]backend.Held, len(attempts)), make([]string, len(attempts))
	for i, t := range attempts {
		held[i], names[i] = t.pair.inner.Held(), t.bid.Election
		held[i].End = backend.Failed
	}

	var now []pair
	err := b.release(ctx, held)
	if err == nil {
		now, err = b.read(ctx, names)
	}
	for i, t := range attempts {
		if err != nil {
			*t.answer = backend.Answer{Err: err}
			continue
		}
		*t.answer = backend.Answer{Lease: now[i].lease(), Outcome: backend.Refused, Err: t.answer.Err}
	}
	return err
}

// ownedBy names the lock beside a lease that is held.
func ownedBy(h backend.Held) Owned {
	return Owned{Election: h.Election, ID: h.Holder.ID, Term: h.Term, Sealed: h.MovedTo != ""}
}

// result returns result i, which is Unknown if there is none.
func result(results []Result, i int, err error) (r Result) {
	if i < len(results) {
		r = results[i]
	}
	if r.Outcome == backend.Unknown && r.Err == nil {
		r.Err = err
	}
	return r
}
