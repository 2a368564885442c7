package curator

import (
	"context"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// Listen waits until a watch fires for any election that was observed.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.admit(""); err != nil {
		return err
	}
	var s *session
	var snaps []snapshot
	if err := b.withSession(ctx, func(now *session) (err error) {
		s = now
		if snaps, err = b.takeSnapshots(ctx, s, seen, readMode{watch: true}); err == nil {
			err = allDenied(snaps)
		}
		return err
	}); err != nil {
		return b.wrap("listen", ctxFirst(ctx, err))
	}
	for i, snap := range snaps {
		l := snap.lease
		if snap.holderPresent() && l.Term == seen[i].Term { // renewals are not reported
			l.Version, l.ObserveFor, l.TTL, l.Renew = seen[i].Version, seen[i].ObserveFor, seen[i].TTL, seen[i].Renew
		}
		if l.Differs(seen[i]) {
			return nil
		}
	}
	return b.awaitChange(ctx, s, snaps)
}

// awaitChange waits until something has changed in these snapshots, or a watch is gone with
// its connection or session. Another call may have observed other elections on the next connection.
func (b *Backend) awaitChange(ctx context.Context, s *session, snaps []snapshot) error {
	var watches []*ensemble.Watch
	for i := range snaps {
		watches = append(watches, snaps[i].watches...)
	}
	for {
		_, next := s.Watches.Fired()
		if slices.ContainsFunc(watches, (*ensemble.Watch).Over) {
			return nil
		}
		select {
		case <-next:
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
