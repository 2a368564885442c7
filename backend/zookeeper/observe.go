package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// Observe reads what has changed since it was read last, by the watches that
// have fired, and the nodes of the holders' sessions. That a lease was renewed is
// believed of the server that we talk to; all else, and that nothing has happened, is
// up to date with the ensemble's leader: a sync goes before.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	var views []snapshot
	if err := b.withSession(ctx, func(s *session) (err error) {
		views, err = b.observeAll(ctx, s, seen)
		return err
	}); err != nil {
		return nil, b.wrap("observe", err)
	}
	for i, snap := range views {
		if l := seen[i]; l == (backend.Lease{Election: l.Election}) || snap.lease.Differs(l) {
			changed = append(changed, snap.lease)
		}
	}
	return changed, nil
}

func (b *Backend) observeAll(ctx context.Context, s *session, seen []backend.Lease) ([]snapshot, error) {
	_, epoch := s.idAndEpoch()
	views := make([]snapshot, len(seen))
	rest, err := b.observeRenewals(ctx, s, epoch, seen, views)
	if err == nil && len(rest) > 0 {
		err = b.observeSynced(ctx, s, seen, rest, views)
	}
	if err == nil {
		err = allDenied(views)
	}
	if err != nil {
		return nil, err
	}
	if _, now := s.idAndEpoch(); now == epoch {
		for i := range views {
			s.cache.noteReported(b.layout.recordPath(seen[i].Election), reported{views[i].lease.Heartbeat, epoch})
		}
	}
	return views, nil
}

// renewals looks, without a sync, which of the leases in seen have been renewed since,
// and nothing else, and returns the rest.
//
// On one connection a server never shows what is older than what it has shown. So if
// a lease was seen on this one, and has another heartbeat now, it was renewed after that,
// although the server may be behind and the lease have been renewed, or lost, once more.
// That is safe to take for the truth: who sees a renewal begins to watch anew. A
// server that was cut off shows the last heartbeat that it has heard of once, and from then
// on the same: that is not believed without a sync.
func (b *Backend) observeRenewals(ctx context.Context, s *session, epoch int, seen []backend.Lease, views []snapshot) (rest []int, err error) {
	var likely []int
	for i, l := range seen {
		if l.ObserveFor > 0 && !l.Vacant() && s.cache.wasReported(b.layout.recordPath(l.Election), reported{l.Heartbeat, epoch}) {
			likely = append(likely, i)
		} else {
			rest = append(rest, i)
		}
	}
	mode, errs := watchedRead(), make([]error, len(likely))
	inParallel(len(likely), func(k int) {
		views[likely[k]], errs[k] = b.takeSnapshotIfAllowed(ctx, s, seen[likely[k]].Election, mode)
	})
	if err := firstError(errs); err != nil {
		return nil, err
	}
	_, now := s.idAndEpoch()
	for _, i := range likely {
		snap, was := &views[i], seen[i]
		renewed := now == epoch && snap.holderPresent() && snap.lease.Heartbeat != was.Heartbeat
		if was.Heartbeat = snap.lease.Heartbeat; !renewed || snap.lease.Differs(was) {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// synced looks at some of the elections in seen as they are in the whole ensemble.
func (b *Backend) observeSynced(ctx context.Context, s *session, seen []backend.Lease, some []int, views []snapshot) error {
	// What is read with a watch need not be read after it: if it was too early, the
	// watch has fired by the time the sync is answered.
	sent, synced := s.startSync(ctx)
	leases := make([]backend.Lease, len(some))
	for k, i := range some {
		leases[k] = seen[i]
	}
	mode := watchedRead()
	mode.afterSync = sent
	found, err := b.takeSnapshots(ctx, s, leases, mode)
	again, err2 := synced()
	if err != nil || err2 != nil {
		return errors.Join(err, err2)
	}
	if again {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	mode = watchedRead()
	for k, i := range some {
		if again || s.cache.changed(found[k].entries) {
			if found[k], err = b.takeSnapshotIfAllowed(ctx, s, seen[i].Election, mode); err != nil {
				return err
			}
		}
		views[i] = found[k]
	}
	return nil
}

// look looks at elections, and leaves watches.
func (b *Backend) takeSnapshots(ctx context.Context, s *session, seen []backend.Lease, mode readMode) ([]snapshot, error) {
	s.cache.dropStale()
	views, errs := make([]snapshot, len(seen)), make([]error, len(seen))
	inParallel(len(seen), func(i int) { views[i], errs[i] = b.takeSnapshotIfAllowed(ctx, s, seen[i].Election, mode) })
	return views, firstError(errs)
}

// glimpse is see for one of several. If somebody has taken away the rights at its nodes
// that must not hide the others: it is shown as one whose record cannot be read, and bids
// say why. No lease that is granted has such a heartbeat.
func (b *Backend) takeSnapshotIfAllowed(ctx context.Context, s *session, election string, mode readMode) (snapshot, error) {
	snap, err := b.takeSnapshot(ctx, s, election, mode)
	if errors.Is(err, zk.ErrNoAuth) {
		return snapshot{lease: backend.Lease{Election: election, Heartbeat: mix(0, "closed")}, unreadable: err}, nil
	}
	return snap, err
}

// allClosed returns an error if there was nothing that may be read.
func allDenied(views []snapshot) (err error) {
	for _, snap := range views {
		if err = snap.unreadable; !errors.Is(err, zk.ErrNoAuth) {
			return nil
		}
	}
	return err
}

// firstOf returns the first error.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
