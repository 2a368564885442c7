package curator

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// Observe reads what watches have reported as changed, and the session records of the
// holders. It believes the connected server about renewals. Everything else, and that
// nothing has changed, it reads behind a sync with the ensemble's leader. See
// docs/design/curator.md, "Reads and watches".
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	var snaps []snapshot
	if err := b.withSession(ctx, func(s *session) (err error) {
		snaps, err = b.observeAll(ctx, s, seen)
		return err
	}); err != nil {
		return nil, b.wrap("observe", err)
	}
	for i, snap := range snaps {
		if l := seen[i]; l.Version == "" || snap.lease.Differs(l) {
			changed = append(changed, snap.lease)
		}
	}
	return changed, nil
}

func (b *Backend) observeAll(ctx context.Context, s *session, seen []backend.Lease) ([]snapshot, error) {
	on := s.Connection().Sent
	snaps := make([]snapshot, len(seen))
	rest, err := b.observeRenewals(ctx, s, on, seen, snaps)
	if err == nil && len(rest) > 0 {
		err = b.observeSynced(ctx, s, seen, rest, snaps)
	}
	if err == nil {
		err = allDenied(snaps)
	}
	if err != nil {
		return nil, err
	}
	if s.Connection().Sent == on {
		for i := range snaps {
			s.noteReported(seen[i].Election, snaps[i].lease.Version, on)
		}
	}
	return snaps, nil
}

// observeRenewals reads, without a sync, which of the leases in seen have been renewed,
// with no other change, and returns the rest.
//
// On one connection a server never shows a state older than one it has shown. So a lease
// that was reported on this connection and now has another Version was renewed after
// that, although the server may be behind and the lease may have been renewed, or lost,
// once more. It is safe to believe this: a challenger that sees a renewal starts to observe
// anew. A server that was cut off shows its last heartbeat once and then the same one,
// which is not believed without a sync.
func (b *Backend) observeRenewals(ctx context.Context, s *session, on time.Time, seen []backend.Lease, snaps []snapshot) (rest []int, err error) {
	var known []int
	for i, l := range seen {
		_, unchanged := s.Watches.Node(ensemble.Data, b.layout.recordPath(l.Election))
		if unchanged && l.ObserveFor > 0 && !l.Vacant() && s.wasReported(l.Election, l.Version, on) {
			known = append(known, i)
		} else {
			rest = append(rest, i)
		}
	}
	mode, errs := watchedRead(), make([]error, len(known))
	ensemble.InParallel(len(known), func(k int) {
		snaps[known[k]], errs[k] = b.takeSnapshotIfAllowed(ctx, s, seen[known[k]].Election, mode)
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	now := s.Connection().Sent
	for _, i := range known {
		snap, was := &snaps[i], seen[i]
		renewed := now == on && snap.holderPresent() && snap.lease.Version != was.Version
		if was.Version = snap.lease.Version; !renewed || snap.lease.Differs(was) {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// observeSynced reads some of the elections in seen in the state of the whole ensemble.
func (b *Backend) observeSynced(ctx context.Context, s *session, seen []backend.Lease, some []int, snaps []snapshot) error {
	// A read that leaves a watch need not wait for the sync: if it came too early, the
	// watch has fired by the time the sync is answered.
	on := s.Connection().Sent
	synced := sync.OnceValue(func() error { return s.sync(ctx) })
	go synced()
	leases := make([]backend.Lease, len(some))
	for k, i := range some {
		leases[k] = seen[i]
	}
	mode := watchedRead()
	mode.afterSync = synced
	found, err := b.takeSnapshots(ctx, s, leases, mode)
	if err2 := synced(); err != nil || err2 != nil {
		return errors.Join(err, err2)
	}
	again := s.Connection().Sent != on
	if again {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	mode = watchedRead()
	for k, i := range some {
		if again || found[k].changed() {
			if found[k], err = b.takeSnapshotIfAllowed(ctx, s, seen[i].Election, mode); err != nil {
				return err
			}
		}
		snaps[i] = found[k]
	}
	return nil
}

// takeSnapshots reads elections, and leaves watches.
func (b *Backend) takeSnapshots(ctx context.Context, s *session, seen []backend.Lease, mode readMode) ([]snapshot, error) {
	snaps, errs := make([]snapshot, len(seen)), make([]error, len(seen))
	ensemble.InParallel(len(seen), func(i int) { snaps[i], errs[i] = b.takeSnapshotIfAllowed(ctx, s, seen[i].Election, mode) })
	return snaps, cmp.Or(errs...)
}

// takeSnapshotIfAllowed is takeSnapshot for one of several elections. If we have lost the
// rights to its nodes, the other elections must still be observed: it is shown as one whose
// record cannot be read, and bids return the error. No granted lease has such a Version.
func (b *Backend) takeSnapshotIfAllowed(ctx context.Context, s *session, election string, mode readMode) (snapshot, error) {
	snap, err := b.takeSnapshot(ctx, s, election, mode)
	if errors.Is(err, zk.ErrNoAuth) {
		return snapshot{lease: backend.Lease{Election: election, Version: "closed"}, unreadable: err}, nil
	}
	return snap, err
}

// allDenied returns an error if no election may be read.
func allDenied(snaps []snapshot) (err error) {
	for _, snap := range snaps {
		if err = snap.unreadable; !errors.Is(err, zk.ErrNoAuth) {
			return nil
		}
	}
	return err
}
