package lease

import (
	"context"
	"maps"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Observe implements [backend.Backend] with a reading, unless Listen has just been told that all
// leases have changed.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	if changed, ok := b.changedByCache(seen); ok {
		return changed, nil
	}
	_, states, err := b.read(ctx, namesOf(seen, electionOf))
	if err != nil {
		return nil, b.fail(backend.Describe("observe", len(seen), seen[0].Election), err)
	}
	for i := range states {
		if seen[i].Version == "" || states[i].Differs(seen[i]) {
			changed = append(changed, states[i].Lease)
		}
	}
	return changed, nil
}

func electionOf(l backend.Lease) string { return l.Election }

// namesOf returns the elections of the items of a call.
func namesOf[T any](items []T, election func(T) string) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = election(items[i])
	}
	return names
}

// Listen implements [backend.Backend]. It returns when the driver has told of a change, other than
// a renewal, of an election in seen or of another one that this process has read and does not hold.
// What it is told of renewals only fills the cache.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	err := b.listen(ctx, seen)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return b.fail(backend.Describe("listen to", len(seen), seen[0].Election), err)
}

func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	position, known, ok := b.startListening(seen)
	if !ok {
		_, states, err := b.read(ctx, namesOf(seen, electionOf))
		if err != nil {
			return err
		}
		for i := range states {
			if changedBeyondRenewal(&seen[i], &states[i].Lease) {
				return nil
			}
		}
		position, known, _ = b.startListening(nil)
	}

	names := make(map[string]bool, len(seen))
	for i := range seen {
		names[seen[i].Election] = true
	}
	b.mu.Lock()
	began := b.cache.source
	b.mu.Unlock()

	heard := false
	err := b.driver.(Listener).Listen(ctx, position, known, func(items []Item, at uint64) (more bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		heard = b.cache.source != began || b.hear(names, items, at)
		return !heard
	})
	if err == nil && !heard { // the driver cannot tell what came after position
		b.mu.Lock()
		b.cache.clearItems()
		b.mu.Unlock()
	}
	return err
}

// startListening returns the position after which Listen begins, and what is known. ok is false if
// seen must be read first, because the cache does not show it, or was filled long ago.
func (b *Backend) startListening(seen []backend.Lease) (position uint64, known []Item, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.cache
	var s state
	age, v := b.limits.Now().Sub(c.at), b.cachedView()
	ok = !c.at.IsZero() && age >= 0
	for i := range seen {
		ok = ok && b.loadCached(v, seen[i].Election, &s) && age <= max(s.TTL, b.limits.MinTTL)
		ok = ok && !changedBeyondRenewal(&seen[i], &s.Lease)
	}
	if !ok {
		c.clearItems() // the reading that follows sets the position; it may read fewer
		return 0, nil, false
	}
	return c.position, slices.Collect(maps.Values(c.items)), true
}

// hear keeps what the driver tells, and returns true if that is news for the caller of Listen: the record of
// an election in names has changed, or of another one that this process has read and does not hold; or the
// driver has only said that something has changed. The caller holds b.mu.
func (b *Backend) hear(names map[string]bool, items []Item, position uint64) (news bool) {
	if news = len(items) == 0; news {
		b.cache.untold = b.cache.begun
	}
	for _, it := range items {
		_, follows := b.known[it.Name]
		_, held := b.held[it.Name]
		old, cached := b.cache.items[it.Key]
		switch {
		case cached && (it.Order < old.Order || it.Version == old.Version): // it was read since
			continue
		case it.Kind == Records && (names[it.Name] || follows && !held):
			news = true
		case it.Kind == Records:
			delete(b.cache.items, it.Key) // nobody listens to it, and it is no longer as it was read
			continue
		case it.Kind != Sessions, !cached && len(b.cache.items) >= b.forgetAt+maxTold:
			continue // a store may have any number of sessions
		}
		b.cache.add(it)
	}
	b.cache.position, b.cache.at = max(b.cache.position, position), b.limits.Now()
	return news
}

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}

	for len(list) < limit {
		want := limit - len(list)
		page, err := b.driver.List(ctx, Records, from, want)
		if err != nil {
			return nil, b.fail("list", err)
		}
		var names []string
		for i := range page.Items {
			name := page.Items[i].Name
			from = name + "\x00"
			if backend.CheckName(name) == nil {
				names = append(names, name)
			}
		}
		if names != nil {
			records, err := b.listed(ctx, &page, names)
			if err != nil {
				return nil, b.fail("list", err)
			}
			list = append(list, records...)
		}
		if len(page.Items) < want {
			break
		}
	}
	return list, nil
}

// listed returns the elections of a page of a listing, without those whose records are invalid.
func (b *Backend) listed(ctx context.Context, page *View, names []string) (list []backend.Record, err error) {
	_, states, err := b.complete(ctx, page, names)
	if err != nil {
		return nil, err
	}
	for i := range states {
		s := &states[i]
		if s.record == nil {
			continue
		}
		r := backend.Record{Lease: s.Lease, History: clean.History(s.record.History)}
		if !s.Vacant() {
			r.Elected = s.record.Elected.UTC()
		}
		list = append(list, r)
	}
	return list, nil
}
