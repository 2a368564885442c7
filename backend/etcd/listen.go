package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// Listen implements [backend.Backend]: a watch of records and requests from just after the
// last reading, or a new one, if nothing has changed by that. It hears of all elections
// that this process has ever read. Beside it goes a watch of heartbeats, from now on: renewals
// are remembered, and wake nobody. The watches end with the call.
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

func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	since, err := b.startRevision(ctx, seen)
	if err != nil || since == 0 {
		return err
	}
	names := make(map[string]bool, len(seen))
	for i := range seen {
		names[seen[i].Election] = true
	}
	// A member without a leader hears nothing: then the watches are ended.
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
			return nil // the client is being closed, or gave up: a look will tell
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // a look brings a newer revision
		case tokenRefused(err) && b.login != nil:
			return b.login.refresh(ctx, b.client, token) // and then a look
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

// renewals takes in what the watch of heartbeats has told, if it tells of the store that was
// read.
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

// begin returns the last revision that is known; 0 if a lease is not as it was seen.
func (b *Backend) startRevision(ctx context.Context, seen []backend.Lease) (since int64, err error) {
	if since := b.lastRevision(seen); since != 0 {
		return since, nil
	}
	same := true
	err = b.readEach(ctx, seen, func(v *snapshot, old *backend.Lease, e *entry) bool {
		if since == 0 {
			since = v.revision // of the first reading: nothing is missed
		}
		same = same && !changedBeyondHeartbeat(old, &e.Lease)
		return same
	})
	if !same {
		since = 0
	}
	return since, err
}

// concerns reports whether one of the events is about an election that is listened to,
// or was read here and is not held.
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
