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
	if err := b.enter(""); err != nil {
		return nil, err
	}
	var views []view
	if err := b.with(ctx, func(s *session) (err error) {
		views, err = b.observe(ctx, s, seen)
		return err
	}); err != nil {
		return nil, b.fail("observe", err)
	}
	for i, v := range views {
		if l := seen[i]; l == (backend.Lease{Election: l.Election}) || v.lease.Differs(l) {
			changed = append(changed, v.lease)
		}
	}
	return changed, nil
}

func (b *Backend) observe(ctx context.Context, s *session, seen []backend.Lease) ([]view, error) {
	_, epoch := s.present()
	views := make([]view, len(seen))
	rest, err := b.renewals(ctx, s, epoch, seen, views)
	if err == nil && len(rest) > 0 {
		err = b.synced(ctx, s, seen, rest, views)
	}
	if err == nil {
		err = allClosed(views)
	}
	if err != nil {
		return nil, err
	}
	if _, now := s.present(); now == epoch {
		for i := range views {
			s.cache.show(b.layout.recordOf(seen[i].Election), shown{views[i].lease.Heartbeat, epoch})
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
func (b *Backend) renewals(ctx context.Context, s *session, epoch int, seen []backend.Lease, views []view) (rest []int, err error) {
	var likely []int
	for i, l := range seen {
		if l.ObserveFor > 0 && !l.Vacant() && s.cache.shows(b.layout.recordOf(l.Election), shown{l.Heartbeat, epoch}) {
			likely = append(likely, i)
		} else {
			rest = append(rest, i)
		}
	}
	g, errs := watching(), make([]error, len(likely))
	each(len(likely), func(k int) { views[likely[k]], errs[k] = b.glimpse(ctx, s, seen[likely[k]].Election, g) })
	if err := firstOf(errs); err != nil {
		return nil, err
	}
	_, now := s.present()
	for _, i := range likely {
		v, was := &views[i], seen[i]
		renewed := now == epoch && v.held() && v.lease.Heartbeat != was.Heartbeat
		if was.Heartbeat = v.lease.Heartbeat; !renewed || v.lease.Differs(was) {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// synced looks at some of the elections in seen as they are in the whole ensemble.
func (b *Backend) synced(ctx context.Context, s *session, seen []backend.Lease, some []int, views []view) error {
	// What is read with a watch need not be read after it: if it was too early, the
	// watch has fired by the time the sync is answered.
	sent, synced := s.syncing(ctx)
	leases := make([]backend.Lease, len(some))
	for k, i := range some {
		leases[k] = seen[i]
	}
	g := watching()
	g.after = sent
	found, err := b.look(ctx, s, leases, g)
	again, err2 := synced()
	if err != nil || err2 != nil {
		return errors.Join(err, err2)
	}
	if again {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	g = watching()
	for k, i := range some {
		if again || s.cache.heard(found[k].deps) {
			if found[k], err = b.glimpse(ctx, s, seen[i].Election, g); err != nil {
				return err
			}
		}
		views[i] = found[k]
	}
	return nil
}

// look looks at elections, and leaves watches.
func (b *Backend) look(ctx context.Context, s *session, seen []backend.Lease, g glance) ([]view, error) {
	s.cache.sweep()
	views, errs := make([]view, len(seen)), make([]error, len(seen))
	each(len(seen), func(i int) { views[i], errs[i] = b.glimpse(ctx, s, seen[i].Election, g) })
	return views, firstOf(errs)
}

// glimpse is see for one of several. If somebody has taken away the rights at its nodes
// that must not hide the others: it is shown as one whose record cannot be read, and bids
// say why. No lease that is granted has such a heartbeat.
func (b *Backend) glimpse(ctx context.Context, s *session, election string, g glance) (view, error) {
	v, err := b.see(ctx, s, election, g)
	if errors.Is(err, zk.ErrNoAuth) {
		return view{lease: backend.Lease{Election: election, Heartbeat: mix(0, "closed")}, bad: err}, nil
	}
	return v, err
}

// allClosed returns an error if there was nothing that may be read.
func allClosed(views []view) (err error) {
	for _, v := range views {
		if err = v.bad; !errors.Is(err, zk.ErrNoAuth) {
			return nil
		}
	}
	return err
}

// firstOf returns the first error.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Listen waits until a watch fires, of any election that was looked at.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(""); err != nil {
		return err
	}
	var s *session
	var views []view
	if err := b.with(ctx, func(now *session) (err error) {
		s = now
		if views, err = b.look(ctx, s, seen, glance{watch: true}); err == nil {
			err = allClosed(views)
		}
		return err
	}); err != nil {
		return b.fail("listen", ctxFirst(ctx, err))
	}
	for i, v := range views {
		l := v.lease
		if v.held() && l.Term == seen[i].Term { // renewals are no news
			l.Heartbeat, l.ObserveFor, l.TTL, l.Renew = seen[i].Heartbeat, seen[i].ObserveFor, seen[i].TTL, seen[i].Renew
		}
		if l.Differs(seen[i]) {
			return nil
		}
	}
	return b.await(ctx, s, views)
}

// await waits until something has happened to what was looked at, or a watch on it is gone
// with its connection: others may have looked at something else on the next.
func (b *Backend) await(ctx context.Context, s *session, views []view) error {
	var deps []*entry
	for i := range views {
		deps = append(deps, views[i].deps...)
	}
	for {
		news, notified := s.cache.notified()
		if notified || s.cache.heard(deps) {
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
