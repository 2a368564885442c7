package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Observe implements [backend.Backend].
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := about("observe", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	entries := b.heard(seen)
	if entries == nil {
		if entries, err = b.look(ctx, seen); err != nil {
			return nil, b.fail(what, err)
		}
	}
	for i, e := range entries {
		b.free.see(e)
		if seen[i].Heartbeat == 0 || e.lease.Differs(seen[i]) {
			changed = append(changed, e.lease)
		}
	}
	return changed, nil
}

func (b *Backend) look(ctx context.Context, seen []backend.Lease) ([]*entry, error) {
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	return b.read(ctx, names, false)
}

// Ask implements [backend.Backend]: for each request one reading, and one write of
// the record that is pinned to it.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := about("ask", len(requests), requests[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	var stale error
	for _, w := range requests {
		if err := b.ask(ctx, w); err != nil {
			if ctx.Err() != nil || backend.Class(b.fail("", err)) != backend.ErrInvalid {
				return b.fail(what, err)
			}
			stale = err
		}
	}
	return b.fail(what, stale)
}

func (b *Backend) ask(ctx context.Context, w backend.Request) error {
	for range attempts {
		entries, err := b.read(ctx, []string{w.Election}, true)
		if err != nil {
			return err
		}
		e := entries[0]
		if e.term.Term == 0 || e.lease.Term != w.Term || w.Term == 0 {
			return fmt.Errorf("election %q has term %d, not %d: %w", w.Election, e.lease.Term, w.Term, backend.ErrStale)
		}
		record := e.term
		if record.Request = nil; w.Kind != "" {
			record.Request = &request{w.Term, w.Kind, w.ID, w.Nonce}
		}
		ok, answer, err := b.txn(ctx, api.KVTxnOps{
			{Verb: api.KVCAS, Key: b.keys.term + w.Election, Index: e.termPair.ModifyIndex, Value: encode(record)}, b.changed(),
		})
		if err != nil || ok {
			return err
		}
		if err := txnError(answer); !errors.Is(err, errConflict) {
			return err
		}
	}
	return errConflict
}

// List implements [backend.Backend]. It reads all records.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	pairs, err := b.leases(ctx, 0, true)
	if err != nil {
		return nil, b.fail("list", err)
	}
	var names []string
	for key := range pairs {
		name, is := strings.CutPrefix(key, b.keys.term)
		if !is {
			if name, is = strings.CutPrefix(key, b.keys.lock); !is || pairs[b.keys.term+name] != nil {
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
		return nil, b.fail("list", err)
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
