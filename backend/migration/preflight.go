package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// preflight returns the attempts that the new store would grant if the lease were free: it is
// reachable, its tables or paths exist, and this process may write a member record and be
// granted leases ([backend.Preflighter]). No bid is made in the old store for the others. The
// new store is asked once for each election. If rights are taken away later, a bid finds
// that out, and the old lease is released at once.
func (b *Backend) preflight(ctx context.Context, attempts []*attempt) (ready []*attempt) {
	var untested []*attempt
	var bids []backend.Bid
	b.mu.Lock()
	member := b.announced
	for _, t := range attempts {
		if b.pairs[t.bid.Election].preflighted {
			ready = append(ready, t)
		} else {
			untested, bids = append(untested, t), append(bids, t.bid)
		}
	}
	b.mu.Unlock()
	if untested == nil {
		return ready
	}

	store := b.stores[newer]
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

// Prepare implements [backend.Preparer], for the stores that this stage uses.
func (b *Backend) Prepare(ctx context.Context) error {
	var errs []error
	for _, store := range b.needed() {
		if p, ok := store.(backend.Preparer); ok {
			errs = append(errs, p.Prepare(ctx))
		}
	}
	return errors.Join(errs...)
}

// Inspect asks the stores by which this process leads, if they are Inspectors. Each diagnostic begins with the
// store's name. If one store cannot be read, Inspect returns the diagnostics of the other beside the error.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	for s, store := range b.stores {
		inspector, ok := store.(backend.Inspector)
		if !ok || b.stage == From && s == newer || b.stage == To && s == older {
			continue
		}
		found, storeErr := inspector.Inspect(ctx, ttl, renew)
		for _, d := range found {
			d.Text = b.names[s] + ": " + d.Text
			list = append(list, d)
		}
		if storeErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", b.names[s], storeErr))
		}
	}
	return list, err
}
