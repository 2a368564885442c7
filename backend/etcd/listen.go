package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// Listen implements [backend.Backend]. It watches records and requests from just after the
// last read, or reads first, and returns for changes of all elections that this process
// has ever read and does not hold. A second watch, of heartbeats, fills the watchCache and
// wakes no one. Both watches end with the call.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(""); err != nil {
		return err
	}
	err := b.listen(ctx, seen)
	if err == nil {
		b.mu.Lock()
		b.cache.listenReturned()
		b.mu.Unlock()
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return b.fail(about("listen to", len(seen), seen[0].Election), err)
}

// listen returns nil when a read may show something new.
func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	since, err := b.startRevision(ctx, seen)
	if err != nil || since == 0 {
		return err
	}
	names := make(map[string]bool, len(seen))
	for i := range seen {
		names[seen[i].Election] = true
	}
	// A member of etcd without a leader delivers nothing; this ends its watches.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	var token string
	if b.login != nil {
		token = b.login.current()
	}
	b.mu.Lock()
	cluster, restored := b.cache.cluster, b.cache.restoredAt
	b.mu.Unlock()
	from, to := b.keys.watchRange()
	all := b.keys.heartbeat("")
	news := b.client.Watch(ctx, from, clientv3.WithRange(to), clientv3.WithRev(since+1))
	heartbeats := b.client.Watch(ctx, all, clientv3.WithRange(directoryEnd(all)))
	for {
		var resp clientv3.WatchResponse
		more, renewed := false, false
		select {
		case resp, more = <-news:
		case resp, more = <-heartbeats:
			renewed = true
		}
		err := resp.Err()
		switch {
		case !more && ctx.Err() != nil:
			return ctx.Err()
		case !more:
			return nil // the client is closing or gave up: a read shows which
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // a read brings a newer revision
		case tokenRefused(err) && b.login != nil:
			return b.login.refresh(ctx, b.client, token) // then the manager reads
		case err != nil:
			return err
		case len(resp.Events) == 0:
		case renewed:
			if !b.cacheHeartbeats(&resp, cluster, restored) {
				return nil
			}
		default:
			b.updateLastRead(since, &resp)
			if b.concerns(resp.Events, names) {
				return nil
			}
		}
	}
}

// cacheHeartbeats caches what the watch of heartbeats has delivered. It returns false if
// that comes from another store than the one that was read.
func (b *Backend) cacheHeartbeats(resp *clientv3.WatchResponse, cluster uint64, restored int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.cache
	if resp.Header.GetClusterId() != cluster || h.cluster != cluster || h.restoredAt != restored || b.restoredAt != restored {
		return false
	}
	h.addEvents(resp.Events, b.keys.heartbeat(""))
	b.newestRevision = max(b.newestRevision, resp.Events[len(resp.Events)-1].Kv.ModRevision)
	return true
}

// startRevision returns the revision after which the watch begins, or 0 if a lease is not
// as it was seen.
func (b *Backend) startRevision(ctx context.Context, seen []backend.Lease) (since int64, err error) {
	if since := b.lastRevision(seen); since != 0 {
		return since, nil
	}
	same := true
	err = b.readEach(ctx, seen, func(v *snapshot, old *backend.Lease, e *entry) bool {
		if since == 0 {
			since = v.revision // of the first read, so that no change is missed
		}
		same = same && !changedBeyondHeartbeat(old, &e.Lease)
		return same
	})
	if !same {
		since = 0
	}
	return since, err
}

// concerns reports whether one of the events is about an election in names, or about
// another one that this process has read and does not hold.
func (b *Backend) concerns(events []*clientv3.Event, names map[string]bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, event := range events {
		key := string(event.Kv.Key)
		for _, directory := range []string{b.keys.record(""), b.keys.request("")} {
			if name, ok := strings.CutPrefix(key, directory); ok {
				_, known := b.hadRecord[name]
				if _, held := b.held[name]; names[name] || known && !held {
					return true
				}
			}
		}
	}
	return false
}
