package etcd

import (
	"context"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Observe implements [backend.Backend] with one linearizable read, of a few elections by
// key, of many by range. It does not read when watches have just shown that all leases were
// renewed, or have become free.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	if changed, ok := b.fromWatches(seen); ok {
		return changed, nil
	}
	err = b.readEach(ctx, seen, func(v *snapshot, old *backend.Lease, e *entry) bool {
		if old.Version == "" || e.Differs(*old) {
			changed = append(changed, e.Lease)
		}
		return true
	})
	if err != nil {
		return nil, b.fail(about("observe", len(seen), seen[0].Election), err)
	}
	return changed, nil
}

// readEach reads all elections of seen and calls f for each until f returns false, in the
// order of seen if they are few.
func (b *Backend) readEach(ctx context.Context, seen []backend.Lease, f func(v *snapshot, old *backend.Lease, e *entry) bool) error {
	order := make([]int, len(seen))
	for i := range order {
		order[i] = i
	}
	if len(seen) > maxByKey { // so that each range is short
		slices.SortFunc(order, func(i, j int) int { return strings.Compare(seen[i].Election, seen[j].Election) })
	}
	for part := range slices.Chunk(order, maxByRange) {
		names := make([]string, len(part))
		for n, i := range part {
			names[n] = seen[i].Election
		}
		v, entries, err := b.readElections(ctx, names)
		if err != nil {
			return err
		}
		for n, i := range part {
			if !f(&v, &seen[i], &entries[n]) {
				return nil
			}
		}
	}
	return nil
}

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	for len(list) < limit {
		page, more, err := b.readPage(ctx, from, limit-len(list))
		if err != nil {
			return nil, b.fail("list", err)
		}
		list = append(list, page...)
		if more == "" {
			break
		}
		from = more
	}
	return list, nil
}

// readPage returns up to limit records and the name at which the next page begins, if any.
func (b *Backend) readPage(ctx context.Context, from string, limit int) (list []backend.Record, more string, err error) {
	records := b.keys.record("")
	limit = min(limit, maxByRange)
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.record(from), clientv3.WithRange(directoryEnd(records)),
		clientv3.WithKeysOnly(), clientv3.WithLimit(int64(limit)))}, true)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			names = append(names, nameIn(kv.Key, records))
		}
	}
	if len(names) == 0 {
		return nil, "", nil
	}
	if len(names) == limit {
		more = keyAfter(names[len(names)-1])
	}
	_, entries, err := b.readElections(ctx, names)
	if err != nil {
		return nil, "", err
	}
	for i := range entries {
		e := &entries[i]
		if e.record == nil || backend.CheckName(e.Election) != nil {
			continue // deleted meanwhile, or a foreign key
		}
		r := backend.Record{Lease: e.Lease, History: clean.History(e.record.History)}
		if !e.Vacant() {
			r.Elected = e.record.Elected.UTC()
		}
		list = append(list, r)
	}
	return list, more, nil
}
