package consul

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// listenPause is how long nobody listens after a call has needed the connection of a query.
const listenPause = 5 * time.Minute

// Listen implements [lease.Listener] by a query that the server answers once a record has
// changed. Sessions are elsewhere, so a renewal wakes nobody. The query continues from the index
// of the last call, so that no change in between is missed. More than maxByKey records are not told: then it
// only says that something has changed. The next reading shows that somebody has deleted a record.
func (d *driver) Listen(ctx context.Context, _ uint64, _ []lease.Item, on lease.Heard) error {
	for {
		if time.Since(time.Unix(0, d.full.Load())) < listenPause {
			return errFull
		}
		began := time.Now()
		d.mu.Lock()
		before, tooMany := d.listened, d.tooMany
		d.mu.Unlock()
		var items []lease.Item
		var now uint64
		var err error
		if tooMany {
			now, err = d.index(ctx, strings.TrimSuffix(d.directory(lease.Records), "/"), before)
		} else {
			var there map[lease.Key]lease.Item
			there, now, err = d.list(ctx, lease.Records, before)
			items = slices.Collect(maps.Values(there))
		}
		if err != nil {
			if ctx.Err() != nil && before > 0 {
				on(nil, before) // all changes up to that index were told, so the next call needs no reading
			}
			return d.fail(err)
		}
		d.mu.Lock()
		d.listened, d.tooMany = now, d.tooMany || len(items) > maxByKey
		if now != before {
			d.records.at = time.Time{} // an edit by hand does not change the key changes
		}
		tooMany = d.tooMany
		d.mu.Unlock()
		switch {
		case now == before, !tooMany && now > before && len(items) == 0:
			// Nothing has happened for a while, or a proxy does not let the query wait. While there is no
			// record, every write in Consul answers it.
			client.Pause(ctx, time.Until(began.Add(time.Second)))
			continue
		case tooMany, now < before: // a deletion was forgotten, or a snapshot restored
			items = nil
		}
		if !on(items, now) {
			return nil
		}
	}
}
