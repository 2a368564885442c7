package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend/lease"
)

// Listen implements [lease.Listener] with one watch of records and sessions. It ends with the
// call.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	// A member of etcd without a leader delivers nothing; this ends its watches.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	o := d.origins.Now()
	watch := d.watcher.Watch(ctx, d.keys.directory(lease.Records), clientv3.WithRange(d.keys.end(lease.Sessions)), clientv3.WithRev(int64(position)+1))
	for {
		var resp clientv3.WatchResponse
		more := false
		select {
		case resp, more = <-watch:
		case <-o.Replaced: // the watch would wait until the revisions have caught up
			return nil
		}
		switch err := resp.Err(); {
		case !more && ctx.Err() != nil:
			return ctx.Err()
		case !more, errors.Is(err, rpctypes.ErrCompacted):
			return nil // a reading shows why, or brings a newer position
		case tokenRefused(err) && d.login != nil:
			return d.fail(d.login.refresh(ctx, d.client)) // then the caller reads
		case err != nil:
			return d.fail(err)
		case epoch(resp.Header) != o.Epoch:
			return nil
		}
		var items []lease.Item
		at := uint64(0) // the revision in the header may be newer than what was delivered
		for _, e := range resp.Events {
			at = uint64(e.Kv.ModRevision)
			k, ok := d.keys.parse(string(e.Kv.Key))
			switch {
			case ok && e.Type == clientv3.EventTypeDelete:
				items = append(items, lease.Item{Key: k, Order: at, Age: -1})
			case ok:
				items = append(items, item(k, e.Kv, &o))
			}
		}
		d.origins.Told(at)
		if len(items) > 0 && !on(items, at) {
			return nil
		}
	}
}
