package zookeeper

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// Listen waits until a watch fires, of any election that was looked at.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.admit(""); err != nil {
		return err
	}
	var s *session
	var views []snapshot
	if err := b.withSession(ctx, func(now *session) (err error) {
		s = now
		if views, err = b.takeSnapshots(ctx, s, seen, readMode{watch: true}); err == nil {
			err = allDenied(views)
		}
		return err
	}); err != nil {
		return b.wrap("listen", ctxFirst(ctx, err))
	}
	for i, snap := range views {
		l := snap.lease
		if snap.holderPresent() && l.Term == seen[i].Term { // renewals are no news
			l.Heartbeat, l.ObserveFor, l.TTL, l.Renew = seen[i].Heartbeat, seen[i].ObserveFor, seen[i].TTL, seen[i].Renew
		}
		if l.Differs(seen[i]) {
			return nil
		}
	}
	return b.awaitChange(ctx, s, views)
}

// await waits until something has happened to what was looked at, or a watch on it is gone
// with its connection: others may have looked at something else on the next.
func (b *Backend) awaitChange(ctx context.Context, s *session, views []snapshot) error {
	var deps []*entry
	for i := range views {
		deps = append(deps, views[i].entries...)
	}
	for {
		news, notified := s.cache.takeNotification()
		if notified || s.cache.changed(deps) {
			return nil
		}
		select {
		case <-news:
		case <-s.ctx.Done():
			return nil // another session is being opened, or none any more
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ctxFirst returns the context's own error if it has ended, as Listen promises.
func ctxFirst(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
