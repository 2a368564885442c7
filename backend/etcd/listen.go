package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend/lease"
)

// A watch tells of changes of records and sessions. It stays open from one call of Listen to the next: to
// make and to cancel it takes four messages, at each change from each process.
type watch struct {
	ctx      context.Context
	end      context.CancelFunc
	changes  clientv3.WatchChan // nil until it is made
	position uint64             // it has told the changes up to here
	origin   origin             // the store that it watches
	unused   *time.Timer        // ends it if no call takes it; until then its changes wait in memory
}

// keepWatch is how long a watch stays open between calls of Listen.
const keepWatch = 10 * time.Second

var _ lease.Listener = (*driver)(nil)

// Listen implements [lease.Listener]. A call that is cancelled ends its watch, which may hang.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on lease.Heard) error {
	w := d.takeWatch(position)
	stop := context.AfterFunc(ctx, w.end)
	defer stop()
	if w.changes == nil {
		records, to := d.keys.directory(lease.Records), clientv3.WithRange(d.keys.end(lease.Sessions))
		next := clientv3.WithRev(int64(position) + 1)
		w.changes = d.watcher.Watch(w.ctx, records, to, next, clientv3.WithCreatedNotify())
	}

	more, err := d.hear(ctx, w, position, on)
	if more {
		w.unused = time.AfterFunc(keepWatch, w.end)
		d.kept.Store(w)
	} else {
		w.end()
	}
	return err
}

// takeWatch returns the watch that was kept, if it tells all that comes after position, or a new one.
func (d *driver) takeWatch(position uint64) *watch {
	w, o := d.kept.Swap(nil), d.origins.Now()
	if w != nil {
		w.unused.Stop()
		if w.ctx.Err() == nil && w.position <= position && w.origin.Replaced == o.Replaced {
			w.origin = o
			return w
		}
		w.end()
	}

	w = &watch{position: position, origin: o}
	// A member of etcd without a leader delivers nothing; this ends its watches.
	w.ctx, w.end = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return w
}

// hear calls on with what w tells after position. more is true if w will tell what comes next.
func (d *driver) hear(ctx context.Context, w *watch, position uint64, on lease.Heard) (more bool, err error) {
	for {
		var resp clientv3.WatchResponse
		open := false
		select {
		case resp, open = <-w.changes:
		case <-w.origin.Replaced: // the watch would wait until the revisions have caught up
			return false, nil
		}
		switch err := resp.Err(); {
		case !open && ctx.Err() != nil:
			return false, ctx.Err()
		case !open, errors.Is(err, rpctypes.ErrCompacted), tokenRefused(err) && d.login != nil:
			return false, nil // a reading shows why, logs in, or brings a newer position
		case err != nil:
			return false, d.fail(err)
		case epoch(resp.Header) != w.origin.Epoch:
			return false, nil
		case resp.Created:
			if uint64(resp.Header.Revision) > position && d.changedSince(ctx, position) {
				return true, nil
			}
			continue
		}

		var items []lease.Item
		for _, e := range resp.Events {
			w.position = uint64(e.Kv.ModRevision) // that of the header may be newer than what was delivered
			k, ok := d.keys.parse(string(e.Kv.Key))
			switch {
			case !ok || w.position <= position: // read since the watch was kept
			case e.Type == clientv3.EventTypeDelete:
				items = append(items, lease.Item{Key: k, Order: w.position, Age: -1})
			default:
				items = append(items, item(k, e.Kv, &w.origin))
			}
		}
		d.origins.mu.Lock()
		d.origins.now.Newest = max(d.origins.now.Newest, w.position)
		d.origins.mu.Unlock()
		if len(items) > 0 && !on(items, w.position) {
			return true, nil
		}
	}
}

// changedSince reports whether a record was written after position: then the caller reads. A watch from an
// earlier revision than the present one tells that, too, but only after up to 100 ms: so often etcd looks for
// what such watches have missed. Whoever has resigned would hear so much later than others who leads next.
func (d *driver) changedSince(ctx context.Context, position uint64) bool {
	newer := clientv3.WithMinModRev(int64(position) + 1)
	one := d.keys.all(lease.Records, "", newer, clientv3.WithLimit(1), clientv3.WithKeysOnly())
	resp, err := d.kv.Do(ctx, one)
	return err == nil && len(resp.Get().Kvs) > 0
}
