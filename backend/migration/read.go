package migration

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/page"
)

// read updates the pairs of the elections of items. It reads both stores at the same time, except at stage
// To, where most elections need only the new one. Those that need the old one stay unknown there while it
// cannot be reached, and the others go on.
func read[T any](ctx context.Context, b *Backend, items []T, name func(T) string) error {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = name(item)
	}
	if b.stage != To {
		errs := b.both(func(s side) error { return b.observe(ctx, s, names) })
		return cmp.Or(errs[older], errs[newer])
	}
	if err := b.observe(ctx, newer, names); err != nil {
		return err
	}

	var need []string
	b.mu.Lock()
	for _, election := range names {
		if !b.newDecides(b.pairOf(election)) {
			need = append(need, election)
		}
	}
	b.mu.Unlock()
	if need == nil {
		return nil
	}
	err := b.observe(ctx, older, need)
	if len(need) < len(names) {
		return nil
	}
	return err
}

// pairOf returns the pair of an election.
func (b *Backend) pairOf(election string) *pair {
	if b.pairs[election] == nil {
		b.pairs[election] = &pair{}
	}
	return b.pairs[election]
}

// observe reads one store into one half of each pair.
func (b *Backend) observe(ctx context.Context, s side, names []string) error {
	seen := make([]backend.Lease, len(names))
	b.mu.Lock()
	b.begun++
	number := b.begun
	for i, name := range names {
		seen[i] = b.pairOf(name).half[s].Lease
		seen[i].Election = name
	}
	b.mu.Unlock()

	changed, err := b.stores[s].Observe(ctx, seen)
	if err == nil && s == older {
		err = b.readMembers(ctx, changed)
	}
	if err != nil {
		return err
	}

	now := time.Now() // received
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range changed {
		p := b.pairOf(l.Election)
		if h := &p.half[s]; number > h.told && h.update(l, now, b.begun) {
			b.combine(p, now)
		}
	}
	return nil
}

// readMembers finds out which holders of these leases of the old store need the new lease, too: those have a
// member record in the new store before they bid. Any other is at stage from, or knows no migrations.
func (b *Backend) readMembers(ctx context.Context, leases []backend.Lease) error {
	var unknown []backend.Nonce
	b.mu.Lock()
	for _, l := range leases {
		if _, known := b.needsBoth[l.Holder.Nonce]; !known && l.Holder.Nonce != "" {
			unknown = append(unknown, l.Holder.Nonce)
		}
	}
	b.mu.Unlock()
	if unknown == nil {
		return nil
	}

	call := func(ctx context.Context, read func(context.Context) error) error { return read(ctx) }
	members, err := page.Members(ctx, call, b.stores[newer])
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, nonce := range unknown {
		isMember := func(m backend.Member) bool { return m.Nonce == nonce }
		b.needsBoth[nonce] = slices.ContainsFunc(members, isMember)
	}
	return nil
}

func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(ctx, "observe", ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.stores[older].Observe(ctx, seen)
	}
	if err := read(ctx, b, seen, func(l backend.Lease) string { return l.Election }); err != nil {
		return nil, wrap("observe", err)
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
	if err := b.enter(ctx, "listen", ""); err != nil {
		return err
	}
	if b.stage == From {
		return b.stores[older].Listen(ctx, seen)
	}

	var known [2][]backend.Lease
	b.mu.Lock()
	for _, l := range seen {
		p := b.pairs[l.Election]
		if p == nil || p.combined.Election == "" || p.combined.Differs(l) {
			b.mu.Unlock()
			return nil // a change that the caller has not seen
		}
		known[newer] = append(known[newer], p.half[newer].Lease)
		if !b.newDecides(p) {
			known[older] = append(known[older], p.half[older].Lease)
		}
	}
	b.mu.Unlock()

	var listens []func(context.Context) error
	for s, store := range b.stores {
		if len(known[s]) > 0 && store.Guarantees().Push {
			listens = append(listens, func(ctx context.Context) error { return store.Listen(ctx, known[s]) })
		}
	}
	return beside.First(ctx, listens...)
}
