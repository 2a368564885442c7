package manual

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Acquire grants leases to the candidate if it is named.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, bids[0].Candidate); err != nil {
		return nil, fail("acquire", err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail("acquire", err)
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	inner, err := b.readInner(ctx, names...)
	if err != nil {
		return nil, fail("acquire", err)
	}
	answers := make([]backend.Answer, len(bids))
	var allowed []backend.Bid
	var places []int // of allowed, in bids
	for i, bid := range bids {
		l := inner[i]
		leftover := !l.Vacant() && l.Holder.Nonce == bid.Candidate.Nonce
		switch now := b.lease(l, a); {
		case b.file != "" && bid.TTL > b.maxTTL:
			answers[i].Err = fail(fmt.Sprintf("acquire %q", bid.Election), fmt.Errorf("%w: a TTL of %v; the greatest is %v", backend.ErrInvalid, bid.TTL, b.maxTTL))
		case b.isMe(a.named(bid.Election)) && (leftover && l.MovedTo == bid.Expected.MovedTo || now.Unchanged(bid.Expected)):
			bid.Expected, bid.MinTerm = l, max(bid.MinTerm, a.Version) // terms exceed versions
			allowed, places = append(allowed, bid), append(places, i)
		case leftover: // this process is no longer named
			answers[i] = b.releaseLeftover(ctx, l, a)
		default:
			answers[i] = backend.Answer{Lease: now, Outcome: backend.Refused}
		}
	}
	if len(allowed) == 0 {
		return answers, nil
	}
	got, err := b.inner.Acquire(ctx, allowed)
	for i, answer := range got {
		if answer.Outcome == backend.Granted {
			b.mu.Lock()
			b.ledVersion[answer.Election] = a.Version
			b.mu.Unlock()
		}
		if answer.Outcome != backend.Unknown {
			answer.Lease = b.lease(answer.Lease, a)
		}
		answers[places[i]] = answer
	}
	return answers, fail("acquire", err)
}

// releaseLeftover releases a lease of a process that is no longer named, and refuses its bid.
func (b *Backend) releaseLeftover(ctx context.Context, l backend.Lease, a assignment) backend.Answer {
	l.Term, l.End = 0, backend.Failed
	err := b.inner.Release(ctx, []backend.Held{l.Held()})
	var now []backend.Lease
	if err == nil {
		now, err = b.readInner(ctx, l.Election)
	}
	if err != nil {
		return backend.Answer{Err: fail("acquire", err)}
	}
	return backend.Answer{Lease: b.lease(now[0], a), Outcome: backend.Refused}
}
