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
	switch b.stage {
	case From:
		return b.old.Announce(ctx, m)
	case To:
		return b.new.Announce(ctx, m)
	}
	return parallel(func() error { return b.old.Announce(ctx, m) }, func() error { return b.new.Announce(ctx, m) })
}

// Members implements [backend.Backend]. It merges the members of both stores.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Members(ctx, from, limit)
	}
	var olds, news []backend.Member
	err := parallel(func() (err error) {
		olds, err = b.old.Members(ctx, from, limit)
		return err
	}, func() (err error) {
		news, err = b.new.Members(ctx, from, limit)
		return err
	})
	if err != nil && (b.stage != To || news == nil) {
		return nil, fmt.Errorf("migration: members: %w", err)
	}
	all := merge(olds, news, func(m backend.Member) string { return string(m.Nonce) }, func(_, n backend.Member) backend.Member { return n })
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
	var olds, news []backend.Record
	err := parallel(func() (err error) {
		if b.stage != To || !b.unsealed {
			olds, err = b.old.List(ctx, from, limit)
		}
		return err
	}, func() (err error) {
		news, err = b.new.List(ctx, from, limit)
		return err
	})
	if err != nil && (b.stage != To || news == nil) {
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
func merge[T any](olds, news []T, key func(T) string, pick func(o, n T) T) []T {
	all := make([]T, 0, len(olds)+len(news))
	for len(olds) > 0 && len(news) > 0 {
		switch c := cmp.Compare(key(olds[0]), key(news[0])); {
		case c < 0:
			all, olds = append(all, olds[0]), olds[1:]
		case c > 0:
			all, news = append(all, news[0]), news[1:]
		default:
			all, olds, news = append(all, pick(olds[0], news[0])), olds[1:], news[1:]
		}
	}
	return slices.Concat(all, olds, news)
}
