package migration

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// preflight returns the attempts that the new store would grant if the lease were free: it is
// reachable, its tables or paths exist, and this process may write a member record and be
// granted leases ([backend.Preflighter]). No bid is made in the old store for the others. The
// new store is asked once for each election. If rights are taken away later, a bid finds
// that out, and the old lease is released at once.
func (b *Backend) preflight(ctx context.Context, attempts []*attempt, answers []backend.Answer) (ready []*attempt) {
	var untested []*attempt
	b.mu.Lock()
	announced := b.announced
	for _, t := range attempts {
		if b.pairs[t.bid.Election].preflighted {
			ready = append(ready, t)
		} else {
			untested = append(untested, t)
		}
	}
	b.mu.Unlock()
	if untested == nil {
		return ready
	}
	errs := make([]error, len(untested))
	if !announced {
		first := untested[0].bid
		err := b.new.Announce(ctx, backend.Member{Candidate: first.Candidate, TTL: first.TTL, Stage: string(b.stage)})
		if announced = err == nil; !announced && !errors.Is(err, backend.ErrInvalid) { // ErrInvalid is about this one bid, which will be refused
			for i := range errs {
				errs[i] = err
			}
		}
	}
	if p, ok := b.new.(backend.Preflighter); ok && errs[0] == nil {
		bids := make([]backend.Bid, len(untested))
		for i, t := range untested {
			bids[i] = t.bid
		}
		errs = p.Preflight(ctx, bids)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announced = announced
	for i, t := range untested {
		if errs[i] != nil {
			answers[t.i] = backend.Answer{Err: fmt.Errorf("migration: acquire %q: the new store %s cannot be used: %w", t.bid.Election, b.newName, errs[i])}
			continue
		}
		b.pairs[t.bid.Election].preflighted = true
		ready = append(ready, t)
	}
	return ready
}
