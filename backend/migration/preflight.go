package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
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

// Inspect asks the stores that this process uses, if they are Inspectors. Each diagnostic
// begins with the store's name. If one store cannot be read, Inspect returns the diagnostics
// of the other beside the error. At stage To an old store that cannot be read is only a
// warning: elections that are sealed there do not need it.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	var found [2][]backend.Diagnostic
	errs := b.both(func(s side) (err error) {
		store, ok := b.stores[s].(backend.Inspector)
		if !ok {
			return nil
		}
		found[s], err = store.Inspect(ctx, ttl, renew)
		for i := range found[s] {
			found[s][i].Text = b.names[s] + ": " + found[s][i].Text
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", b.names[s], err)
		}
		return err
	})
	if b.stage == To && errs[older] != nil {
		text := "%v; only elections that are not sealed there need it"
		found[older] = []backend.Diagnostic{clean.Diagnosticf(true, "servers", text, errs[older])}
		errs[older] = nil
	}
	return slices.Concat(found[:]...), errors.Join(errs[:]...)
}
