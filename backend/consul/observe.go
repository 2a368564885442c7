package consul

import (
	"context"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
)

// Observe implements [backend.Backend]. It uses what Listen has just returned, if that is less
// than 50 ms old and shows all these leases vacant. Otherwise it reads.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := describe("observe", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	entries := b.fromListen(seen)
	if entries == nil {
		if entries, err = b.readSeen(ctx, seen); err != nil {
			return nil, b.wrap(what, err)
		}
	}
	for i, e := range entries {
		b.vacant.record(e)
		if seen[i].Version == "" || e.lease.Differs(seen[i]) {
			changed = append(changed, e.lease)
		}
	}
	return changed, nil
}

func (b *Backend) readSeen(ctx context.Context, seen []backend.Lease) ([]*entry, error) {
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	return b.read(ctx, names, false)
}

// List implements [backend.Backend]. It reads all records.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	pairs, err := b.listLeases(ctx, 0, true)
	if err != nil {
		return nil, b.wrap("list", err)
	}
	var names []string
	for key := range pairs {
		name, ok := strings.CutPrefix(key, b.keys.term)
		if !ok {
			if name, ok = strings.CutPrefix(key, b.keys.lock); !ok || pairs[b.keys.term+name] != nil {
				continue
			}
		}
		if name >= from && backend.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	entries, err := b.readMany(ctx, names, true)
	if err != nil {
		return nil, b.wrap("list", err)
	}
	var list []backend.Record
	for _, e := range entries {
		if e.lease.Term == 0 || len(list) >= limit {
			continue
		}
		r := backend.Record{Lease: e.lease, History: e.term.History}
		if e.lock.Holder.Nonce != "" {
			r.Elected = e.term.From.UTC()
		}
		list = append(list, r)
	}
	return list, nil
}
