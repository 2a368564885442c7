package kubernetes

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/page"
)

// Request implements [backend.Backend]. It writes the record once more, and leaves the spec alone.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := about("request", len(requests), requests[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	var errs []error
	for _, q := range requests {
		s, written, err := b.update(ctx, q.Election, func(s *state) *change {
			if q.Term == 0 || s.Term != q.Term || s.record == nil {
				return nil
			}
			r := *s.record
			if r.Request = nil; q.Kind != "" {
				r.Request = &lease.Request{Kind: q.Kind, ID: q.ID, Nonce: string(q.Nonce)}
			}
			return &change{record: &r, beside: true}
		})
		switch {
		case err != nil:
			return wrap(what, backend.Join(append(errs, err)...))
		case !written:
			errs = append(errs, fmt.Errorf("election %q has term %d, not %d: %w", q.Election, s.Term, q.Term, backend.ErrStale))
		}
	}
	return wrap(what, backend.Join(errs...))
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	m := b.now()
	all, _, err := b.snapshot(ctx, &m)
	if err != nil {
		return nil, wrap("list", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, o := range all {
		r := o.record
		if r == nil || r.Term == 0 || backend.CheckName(r.Election) != nil || b.names.election(r.Election) != name {
			continue
		}
		s := b.classify(r.Election, o)
		record := backend.Record{Lease: s.Lease, History: r.History}
		if t := o.lease.Spec.AcquireTime; t != nil && !s.Vacant() {
			record.Elected = clean.Time(t.Time)
		}
		list = append(list, record)
	}
	return page.Cut(list, from, limit, func(r backend.Record) string { return r.Election }), nil
}

// Observe implements [backend.Backend] with a reading, unless the watch has just told of a change.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := about("observe", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	if changed, ok := b.observeRemembered(seen); ok {
		return changed, nil
	}
	states, err := b.read(ctx, electionsOf(seen))
	if err != nil {
		return nil, wrap(what, err)
	}
	for i := range states {
		if seen[i].Version == "" || states[i].Differs(seen[i]) {
			changed = append(changed, states[i].Lease)
		}
	}
	return changed, nil
}

func electionsOf(leases []backend.Lease) []string {
	names := make([]string, len(leases))
	for i := range leases {
		names[i] = leases[i].Election
	}
	return names
}
