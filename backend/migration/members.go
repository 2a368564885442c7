package migration

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Announce implements [backend.Backend]. It adds the stage, and writes to the stores in use.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	m.Stage = cmp.Or(m.Stage, string(b.stage))
	b.mu.Lock()
	b.announced = m
	b.mu.Unlock()
	errs := b.both(func(s side) error {
		if b.stage == To && s == older {
			return nil
		}
		return b.stores[s].Announce(ctx, m)
	})
	return cmp.Or(errs[older], errs[newer])
}

// Members implements [backend.Backend]. It merges the members of both stores.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, "members", ""); err != nil {
		return nil, err
	}
	all, err := fromBoth(b, func(store backend.Backend) ([]backend.Member, error) {
		return store.Members(ctx, from, limit)
	}, nonceOf, func(_, n backend.Member) backend.Member { return n })
	return all[:min(len(all), limit)], wrap("members", err)
}

func nonceOf(m backend.Member) string { return string(m.Nonce) }

// List implements [backend.Backend]. For an election that is in both stores it returns the
// record with the greater term.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.stores[older].List(ctx, from, limit)
	}

	all, err := fromBoth(b, func(store backend.Backend) ([]backend.Record, error) {
		if b.unsealed && store == b.stores[older] {
			return nil, nil // it may be gone
		}
		return store.List(ctx, from, limit)
	}, func(r backend.Record) string { return r.Election }, b.record)
	for i := range all {
		all[i].MovedTo, all[i].MovedFrom = "", ""
	}
	return all[:min(len(all), limit)], wrap("list", err)
}

// record combines the records of both stores: the later leadership, and the lease as Observe
// returns it to a caller that has not observed it yet.
func (b *Backend) record(o, n backend.Record) backend.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	p := pair{half: [2]half{{Lease: o.Lease, since: now}, {Lease: n.Lease, since: now}}}
	b.combine(&p, now)
	if o.Term > n.Term {
		n = o
	}
	n.Lease = p.combined
	return n
}

// fromBoth lists what is in both stores, in order of keys. pick combines two items with the same key. At
// stage To the new store suffices if there is something.
func fromBoth[T any](
	b *Backend, list func(backend.Backend) ([]T, error), key func(T) string, pick func(o, n T) T,
) (merged []T, err error) {
	var found [2][]T
	errs := b.both(func(s side) (err error) {
		found[s], err = list(b.stores[s])
		return err
	})
	if err := cmp.Or(errs[newer], errs[older]); err != nil && (b.stage != To || found[newer] == nil) {
		return nil, err
	}

	all := slices.Concat(found[:]...)
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	for _, next := range all {
		if last := len(merged) - 1; last >= 0 && key(merged[last]) == key(next) {
			merged[last] = pick(merged[last], next)
		} else {
			merged = append(merged, next)
		}
	}
	return merged, nil
}
