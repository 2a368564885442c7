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
			errs = slices.Repeat([]error{err}, len(untested))
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

// Prepare implements [backend.Preparer], for the stores that this stage uses.
func (b *Backend) Prepare(ctx context.Context) error {
	var errs []error
	for _, store := range []backend.Backend{b.old, b.new} {
		if store == b.old && b.stage == To || store == b.new && b.stage == From {
			continue
		}
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
	if b.stage == From {
		return inspect(ctx, b.oldName, b.old, ttl, renew)
	}
	var fromOld, fromNew []backend.Diagnostic
	var oldErr, newErr error
	parallel(
		func() error { fromOld, oldErr = inspect(ctx, b.oldName, b.old, ttl, renew); return nil },
		func() error { fromNew, newErr = inspect(ctx, b.newName, b.new, ttl, renew); return nil },
	)
	if b.stage == To && oldErr != nil {
		text := fmt.Sprintf("%v; only elections that are not sealed there need it", oldErr)
		fromOld, oldErr = []backend.Diagnostic{{What: "servers", Text: clean.Text(text, 1000, true), Warning: true}}, nil
	}
	return append(fromOld, fromNew...), errors.Join(oldErr, newErr)
}

// inspect asks one store, and puts its name before each diagnostic.
func inspect(ctx context.Context, name string, store backend.Backend, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
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
