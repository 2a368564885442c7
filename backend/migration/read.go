package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// read updates the pairs of these elections. It reads both stores at the same time, except at
// stage To, where most elections need only the new one. Those that need the old one stay
// unknown there while it cannot be reached, and the others go on.
func (b *Backend) read(ctx context.Context, names []string) error {
	if b.stage != To {
		return cmp.Or(parallel(
			func() error { return b.observe(ctx, b.old, names) },
			func() error { return b.observe(ctx, b.new, names) },
		))
	}
	if err := b.observe(ctx, b.new, names); err != nil {
		return err
	}

	var need []string
	b.mu.Lock()
	for _, name := range names {
		if !b.newDecides(b.pairOf(name)) {
			need = append(need, name)
		}
	}
	b.mu.Unlock()
	if need == nil {
		return nil
	}
	err := b.observe(ctx, b.old, need)
	if len(need) < len(names) {
		return nil
	}
	return err
}

// parallel runs two calls at the same time.
func parallel(f, g func() error) (fErr, gErr error) {
	var wg sync.WaitGroup
	wg.Go(func() { fErr = f() })
	gErr = g()
	wg.Wait()
	return fErr, gErr
}

// fromBoth makes the same call to both stores at the same time. At stage From there is only the old one.
func fromBoth[T any](b *Backend, call func(backend.Backend) ([]T, error)) (olds, news []T, oldErr, newErr error) {
	if b.stage == From {
		olds, oldErr = call(b.old)
		return olds, nil, oldErr, nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { olds, oldErr = call(b.old) })
	news, newErr = call(b.new)
	wg.Wait()
	return olds, news, oldErr, newErr
}

// halfOf is the half of a pair that is in a store.
func (b *Backend) halfOf(p *pair, store backend.Backend) *half {
	if store == b.old {
		return &p.old
	}
	return &p.new
}

// pairOf returns the pair of an election.
func (b *Backend) pairOf(election string) *pair {
	if b.pairs[election] == nil {
		b.pairs[election] = &pair{}
	}
	return b.pairs[election]
}

// observe reads one store into one half of each pair.
func (b *Backend) observe(ctx context.Context, store backend.Backend, names []string) error {
	seen := make([]backend.Lease, len(names))
	b.mu.Lock()
	for i, name := range names {
		seen[i] = b.halfOf(b.pairOf(name), store).Lease
		seen[i].Election = name
	}
	b.mu.Unlock()

	changed, err := store.Observe(ctx, seen)
	if err != nil {
		return err
	}
	if store == b.old {
		if err := b.readStages(ctx, changed); err != nil {
			return err
		}
	}

	now := time.Now() // received
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range changed {
		if p := b.pairOf(l.Election); b.halfOf(p, store).update(l, now) {
			b.combine(p, now)
		}
	}
	return nil
}

// readStages reads the stages of all members of the old store, if the holder of one of these
// leases is not known. A holder without a member record is a program that knows nothing of
// migrations.
func (b *Backend) readStages(ctx context.Context, leases []backend.Lease) error {
	b.mu.Lock()
	known := !slices.ContainsFunc(leases, func(l backend.Lease) bool {
		_, known := b.stages[l.Holder.Nonce]
		return !known && !l.Vacant() && l.Holder.Nonce != b.owner.Nonce()
	})
	b.mu.Unlock()
	if known {
		return nil
	}

	const page = 500
	stages := map[backend.Nonce]Stage{}
	for from := ""; ; {
		members, err := b.old.Members(ctx, from, page)
		if err != nil {
			return err
		}
		for _, m := range members {
			stages[m.Nonce] = Stage(m.Stage)
		}
		if len(members) < page {
			break
		}
		from = string(members[len(members)-1].Nonce) + "\x00"
	}

	b.mu.Lock()
	b.stages = stages
	b.mu.Unlock()
	return nil
}

// Observe implements [backend.Backend].
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Observe(ctx, seen)
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	if err := b.read(ctx, names); err != nil {
		return nil, fmt.Errorf("migration: observe: %w", err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range seen {
		if v := b.pairs[l.Election].combined; v.Election != "" && (l.Version == "" || v.Differs(l)) {
			changed = append(changed, v)
		}
	}
	return changed, nil
}

// Listen implements [backend.Backend]. It listens to the stores that notify.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	if b.stage == From {
		return b.old.Listen(ctx, seen)
	}

	var olds, news []backend.Lease
	b.mu.Lock()
	for _, l := range seen {
		p := b.pairs[l.Election]
		if p == nil || p.combined.Election == "" || p.combined.Differs(l) {
			b.mu.Unlock()
			return nil // a change that the caller has not seen
		}
		news = append(news, p.new.Lease)
		if !b.newDecides(p) {
			olds = append(olds, p.old.Lease)
		}
	}
	b.mu.Unlock()
	return beside.First(ctx, append(b.listens(b.old, olds), b.listens(b.new, news)...)...)
}

// listens returns how to listen to a store, if it notifies.
func (b *Backend) listens(store backend.Backend, leases []backend.Lease) []func(context.Context) error {
	if len(leases) == 0 || !store.Guarantees().Push {
		return nil
	}
	return []func(context.Context) error{func(ctx context.Context) error {
		if b.Guarantees().Poll { // the manager reads at each expected renewal anyway
			return beside.ListenPastRenewals(ctx, store, leases)
		}
		return store.Listen(ctx, leases)
	}}
}
