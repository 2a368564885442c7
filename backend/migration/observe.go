package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

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
		if v := b.pairs[l.Election].view; v.Election != "" && (l.Heartbeat == 0 || v.Differs(l)) {
			changed = append(changed, v)
		}
	}
	return changed, nil
}

// Listen implements [backend.Backend]: at the stores that can tell.
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
		if p == nil || p.view.Election == "" || p.view.Differs(l) {
			b.mu.Unlock()
			return nil // something is known that the caller has not seen
		}
		news = append(news, p.new.Lease)
		if !b.alone(p) {
			olds = append(olds, p.old.Lease)
		}
	}
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hear := func(store backend.Backend, leases []backend.Lease) func() error {
		return func() error {
			if len(leases) == 0 || !store.Guarantees().Push {
				return nil
			}
			err := store.Listen(ctx, leases)
			for err == nil && b.renewed(ctx, store, leases) {
				err = store.Listen(ctx, leases)
			}
			cancel(heard{err})
			return nil
		}
	}
	atOnce(hear(b.old, olds), hear(b.new, news))
	var h heard
	if errors.As(context.Cause(ctx), &h) {
		return h.error
	}
	<-ctx.Done() // nobody tells anything
	return ctx.Err()
}

// renewed reports whether leases have merely been renewed, where that is read when
// it is expected, because one of the two stores does not tell. If so it updates them.
func (b *Backend) renewed(ctx context.Context, store backend.Backend, leases []backend.Lease) bool {
	if !b.Guarantees().Poll {
		return false
	}
	changed, err := store.Observe(ctx, leases)
	merely := false
	for _, l := range changed {
		for i, was := range leases {
			if was.Election != l.Election || !l.Differs(was) {
				continue
			}
			was.Heartbeat, was.Ref = l.Heartbeat, l.Ref
			if merely = !l.Vacant() && !l.Differs(was); !merely {
				return false
			}
			leases[i] = l
		}
	}
	return err == nil && merely
}

// heard ends listening: one store has come back.
type heard struct{ error }

func (h heard) Error() string { return "a store has told something" }

// List implements [backend.Backend]: of an election that both stores know, the
// record with the later term.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.List(ctx, from, limit)
	}
	var olds, news []backend.Record
	err := atOnce(func() (err error) {
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

// record is one record of both stores: the later leadership, and the lease as Observe
// shows it, to who has not watched it.
func (b *Backend) record(o, n backend.Record) backend.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	p := pair{old: half{o.Lease, true, now}, new: half{n.Lease, true, now}}
	b.combine(&p, now)
	if o.Term > n.Term {
		n = o
	}
	n.Lease = p.view
	return n
}

// merge merges two lists in order of their keys; pick decides between two of one
// key.
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

// Ask implements [backend.Backend]: the request goes wherever its term is. A leadership at
// stage Both has the same term in both stores.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	switch b.stage {
	case From:
		return b.old.Request(ctx, requests)
	case To:
		return b.new.Request(ctx, requests)
	}
	var errs []error
	for _, w := range requests {
		o, n := b.old.Request(ctx, []backend.Request{w}), b.new.Request(ctx, []backend.Request{w})
		switch stale := errors.Is(n, backend.ErrStale); {
		case stale && o != nil:
			errs = append(errs, o)
		case !stale && n != nil:
			errs = append(errs, n)
		case n == nil && o != nil && !errors.Is(o, backend.ErrStale):
			errs = append(errs, o)
		}
	}
	return errors.Join(errs...)
}

// Announce implements [backend.Backend]: in both stores, with the stage.
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
	return atOnce(func() error { return b.old.Announce(ctx, m) }, func() error { return b.new.Announce(ctx, m) })
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Members(ctx, from, limit)
	}
	var olds, news []backend.Member
	err := atOnce(func() (err error) {
		olds, err = b.old.Members(ctx, from, limit)
		return err
	}, func() (err error) {
		news, err = b.new.Members(ctx, from, limit)
		return err
	})
	if err != nil && (b.stage != To || news == nil) {
		return nil, fmt.Errorf("migration: members: %w", err)
	}
	all := merge(olds, news, func(m backend.Member) string { return m.Nonce }, func(_, n backend.Member) backend.Member { return n })
	return all[:min(len(all), limit)], nil
}
