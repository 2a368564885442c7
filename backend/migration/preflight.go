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
	announced := b.announced
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

	errs := make([]error, len(bids))
	var err error
	if !announced {
		err = b.new.Announce(ctx, backend.Member{Candidate: bids[0].Candidate, TTL: bids[0].TTL, Stage: string(b.stage)})
	}
	if err != nil && !errors.Is(err, backend.ErrInvalid) { // which is about this one bid, which will be refused
		errs = slices.Repeat([]error{err}, len(bids))
	} else if p, ok := b.new.(backend.Preflighter); ok {
		errs = p.Preflight(ctx, bids)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.announced = err == nil
	for i, t := range untested {
		if errs[i] != nil {
			t.fail("the new store %s cannot be used: %w", b.newName, errs[i])
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
	fromOld, fromNew, oldErr, newErr := fromBoth(b, func(store backend.Backend) ([]backend.Diagnostic, error) {
		return b.inspect(ctx, store, ttl, renew)
	})
	if b.stage == To && oldErr != nil {
		text := fmt.Sprintf("%v; only elections that are not sealed there need it", oldErr)
		fromOld, oldErr = []backend.Diagnostic{{What: "servers", Text: clean.Text(text, 1000, true), Warning: true}}, nil
	}
	return append(fromOld, fromNew...), errors.Join(oldErr, newErr)
}

// inspect asks one store, and puts its name before each diagnostic.
func (b *Backend) inspect(
	ctx context.Context, store backend.Backend, ttl, renew time.Duration,
) ([]backend.Diagnostic, error) {
	name := b.newName
	if store == b.old {
		name = b.oldName
	}
	i, ok := store.(backend.Inspector)
	if !ok {
		return nil, nil
	}
	list, err := i.Inspect(ctx, ttl, renew)
	for n := range list {
		list[n].Text = name + ": " + list[n].Text
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return list, err
}
