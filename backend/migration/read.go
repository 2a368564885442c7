package migration

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// read updates the pairs of these elections. It reads both stores at the same time, except at
// stage To, where most elections need only the new one.
func (b *Backend) read(ctx context.Context, names []string) error {
	readNew := func() error { return b.observe(ctx, b.new, names, func(p *pair) *half { return &p.new }) }
	readOld := func() error { return b.readOld(ctx, names) }
	if b.stage == To {
		if err := readNew(); err != nil {
			return err
		}
		return readOld()
	}
	return parallel(readOld, readNew)
}

// parallel runs two calls at the same time and returns an error of one.
func parallel(f, g func() error) error {
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = f() })
	err := g()
	wg.Wait()
	return cmp.Or(err, failed)
}

// readOld reads the old store, for the elections that need it. At stage To those stay unknown
// while it cannot be reached, and the others go on.
func (b *Backend) readOld(ctx context.Context, names []string) error {
	need := names
	if b.stage == To {
		need = nil
		b.mu.Lock()
		for _, name := range names {
			if p := b.pairs[name]; p != nil && !b.newDecides(p) {
				need = append(need, name)
			}
		}
		b.mu.Unlock()
	}
	if len(need) == 0 {
		return nil
	}
	err := b.observe(ctx, b.old, need, func(p *pair) *half { return &p.old })
	if err != nil && b.stage == To && len(need) < len(names) {
		return nil
	}
	return err
}

// observe reads one store into one half of each pair.
func (b *Backend) observe(ctx context.Context, store backend.Backend, names []string, of func(*pair) *half) error {
	seen := make([]backend.Lease, len(names))
	b.mu.Lock()
	for i, name := range names {
		p := b.pairs[name]
		if p == nil {
			p = &pair{}
			b.pairs[name] = p
		}
		if h := of(p); h.known {
			seen[i] = h.Lease
		} else {
			seen[i] = backend.Lease{Election: name}
		}
	}
	b.mu.Unlock()
	changed, err := store.Observe(ctx, seen)
	if err != nil {
		return err
	}
	if store == b.old && b.hasUnknownHolder(changed) {
		if err := b.readStages(ctx); err != nil {
			return err
		}
	}
	now := time.Now() // received
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range changed {
		p := b.pairs[l.Election]
		if p != nil && of(p).update(l, now) {
			b.combine(p, now)
		}
	}
	return nil
}

// hasUnknownHolder reports whether one of these leases has a holder whose stage is not known.
func (b *Backend) hasUnknownHolder(leases []backend.Lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range leases {
		if _, known := b.stages[l.Holder.Nonce]; !known && !l.Vacant() && l.Holder.Nonce != b.owner.Nonce() {
			return true
		}
	}
	return false
}

// readStages reads the stages of all members of the old store. A holder without a member
// record is a program that knows nothing of migrations, and counts as stage From.
func (b *Backend) readStages(ctx context.Context) error {
	const page = 500
	stages := map[backend.Nonce]Stage{}
	for from := ""; ; {
		members, err := b.old.Members(ctx, from, page)
		if err != nil {
			return err
		}
		for _, m := range members {
			s := Stage(m.Stage)
			if s != Both && s != To {
				s = From
			}
			stages[m.Nonce] = s
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

	var listens []func(context.Context) error
	for _, half := range []struct {
		store  backend.Backend
		leases []backend.Lease
	}{{b.old, olds}, {b.new, news}} {
		switch {
		case len(half.leases) == 0 || !half.store.Guarantees().Push:
		case b.Guarantees().Poll: // the manager reads at each expected renewal anyway
			listens = append(listens, func(ctx context.Context) error { return beside.ListenPastRenewals(ctx, half.store, half.leases) })
		default:
			listens = append(listens, func(ctx context.Context) error { return half.store.Listen(ctx, half.leases) })
		}
	}
	return beside.First(ctx, listens...)
}
