package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Announce implements [backend.Backend]. It adds the stage, and writes to the stores that this
// process uses.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, m.Nonce); err != nil {
		return err
	}
	m.Stage = cmp.Or(m.Stage, string(b.stage))
	if b.stage != Both {
		return b.needed()[0].Announce(ctx, m)
	}
	return cmp.Or(parallel(
		func() error { return b.old.Announce(ctx, m) },
		func() error { return b.new.Announce(ctx, m) },
	))
}

// Members implements [backend.Backend]. It merges the members of both stores.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	olds, news, oldErr, newErr := fromBoth(b, func(store backend.Backend) ([]backend.Member, error) {
		return store.Members(ctx, from, limit)
	})
	if err := cmp.Or(newErr, oldErr); err != nil && (b.stage != To || news == nil) {
		return nil, fmt.Errorf("migration: members: %w", err)
	}
	nonce := func(m backend.Member) string { return string(m.Nonce) }
	all := merge(olds, news, nonce, func(_, n backend.Member) backend.Member { return n })
	return all[:min(len(all), limit)], nil
}

// List implements [backend.Backend]. For an election that is in both stores it returns the
// record with the greater term.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.List(ctx, from, limit)
	}

	olds, news, oldErr, newErr := fromBoth(b, func(store backend.Backend) ([]backend.Record, error) {
		if b.unsealed && store == b.old {
			return nil, nil // it may be gone
		}
		return store.List(ctx, from, limit)
	})
	if err := cmp.Or(newErr, oldErr); err != nil && (b.stage != To || news == nil) {
		return nil, fmt.Errorf("migration: list: %w", err)
	}
	all := merge(olds, news, func(r backend.Record) string { return r.Election }, b.record)
	for i := range all {
		all[i].MovedTo, all[i].MovedFrom = "", ""
	}
	return all[:min(len(all), limit)], nil
}

// record combines the records of both stores: the later leadership, and the lease as Observe
// returns it to a caller that has not observed it yet.
func (b *Backend) record(o, n backend.Record) backend.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	p := pair{old: half{o.Lease, true, now}, new: half{n.Lease, true, now}}
	b.combine(&p, now)
	if o.Term > n.Term {
		n = o
	}
	n.Lease = p.combined
	return n
}

// merge merges two lists in order of their keys. pick combines two items with the same key.
func merge[T any](olds, news []T, key func(T) string, pick func(o, n T) T) (merged []T) {
	all := slices.Concat(olds, news)
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	for _, next := range all {
		if last := len(merged) - 1; last >= 0 && key(merged[last]) == key(next) {
			merged[last] = pick(merged[last], next)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}
