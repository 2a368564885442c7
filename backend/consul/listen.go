package consul

import (
	"context"
	"strings"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// maxTold is how many records Listen tells with each change. If there are more, it only says that
// something has changed.
const maxTold = 100

// Listen implements [lease.Listener] by a blocking query that the server answers once a record has
// changed. Sessions are elsewhere, so a renewal wakes nobody. The query continues from the index
// of the last call, so that no change in between is missed.
func (d *driver) Listen(ctx context.Context, _ uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		d.mu.Lock()
		before, tooMany := d.listened, d.tooMany
		d.mu.Unlock()
		var items []lease.Item
		var now uint64
		var err error
		if tooMany {
			now, err = d.recordsIndex(ctx, before)
		} else {
			items, now, err = d.waitForRecords(ctx, before, known)
		}
		if err != nil {
			if ctx.Err() != nil && before > 0 {
				on(nil, before) // all changes up to that index were told, so the next call needs no reading
			}
			return d.Fail(err)
		}
		now = max(now, 1)
		d.mu.Lock()
		d.listened, d.tooMany = now, d.tooMany || len(items) > maxTold
		if now != d.records.index {
			d.records.at = time.Time{} // an edit by hand does not change the key changes
		}
		tooMany = d.tooMany
		d.mu.Unlock()
		switch {
		case now == before: // nothing has happened for a while
			continue
		case tooMany, now < before: // a deletion was forgotten, or a snapshot restored
			items = nil
		case len(items) == 0: // while there is no record, every write in Consul answers the query
			continue
		}
		if !on(items, now) {
			return nil
		}
	}
}

// waitForRecords returns the records once the index of their keys differs, and those that are
// known and no longer there.
func (d *driver) waitForRecords(ctx context.Context, after uint64, known []lease.Item) (items []lease.Item, now uint64, err error) {
	q := d.Consistent(ctx)
	q.WaitIndex, q.WaitTime = after, listenWait
	found, meta, err := d.Client.KV().List(d.directory(lease.Records), q)
	if err != nil {
		return nil, 0, err
	}
	if err := d.Complete(ctx, d.directory(lease.Records), meta); err != nil {
		return nil, 0, err
	}
	there := make(map[string]bool, len(found))
	for _, p := range found {
		name := strings.TrimPrefix(p.Key, d.directory(lease.Records))
		there[name] = true
		items = append(items, d.item(lease.Key{Kind: lease.Records, Name: name}, p))
	}
	for _, it := range known {
		if it.Kind == lease.Records && !there[it.Name] {
			items = append(items, lease.Item{Key: it.Key, Order: meta.LastIndex, Age: -1})
		}
	}
	return items, meta.LastIndex, nil
}
