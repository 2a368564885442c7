package zookeeper

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
)

// Observe reads what has changed since it was read last, by the watches that
// have fired, and the nodes of the holders' sessions. It is up to date with the
// ensemble's leader: a sync goes before.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease, _ string) (changed []backend.Lease, next string, err error) {
	if err := b.enter(""); err != nil {
		return nil, "", err
	}
	var views []view
	if err := b.with(ctx, func(s *session) (err error) {
		views, err = b.observe(ctx, s, seen)
		return err
	}); err != nil {
		return nil, "", b.fail("observe", err)
	}
	for i, v := range views {
		if l := seen[i]; l == (backend.Lease{Election: l.Election}) || v.lease.Differs(l) {
			changed = append(changed, v.lease)
		}
	}
	return changed, "", nil
}

func (b *Backend) observe(ctx context.Context, s *session, seen []backend.Lease) ([]view, error) {
	// What is read with a watch need not be read after it: if it was too early, the
	// watch has fired by the time the sync is answered.
	sent, synced := s.syncing(ctx)
	s.cache.observed()
	g := watching()
	g.after = sent
	views, err := b.look(ctx, s, seen, g)
	again, err2 := synced()
	if err != nil || err2 != nil {
		return nil, errors.Join(err, err2)
	}
	if again {
		if err := s.sync(ctx); err != nil {
			return nil, err
		}
	}
	g = watching()
	for i := range views {
		if again || s.cache.heard(views[i].deps) {
			if views[i], err = b.see(ctx, s, seen[i].Election, g); err != nil {
				return nil, err
			}
		}
	}
	return views, nil
}

// look looks at elections, and leaves watches.
func (b *Backend) look(ctx context.Context, s *session, seen []backend.Lease, g glance) ([]view, error) {
	s.cache.sweep()
	views, errs := make([]view, len(seen)), make([]error, len(seen))
	each(len(seen), func(i int) { views[i], errs[i] = b.see(ctx, s, seen[i].Election, g) })
	return views, firstOf(errs)
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
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease, _ string) error {
	if err := b.enter(""); err != nil {
		return err
	}
	var s *session
	var views []view
	if err := b.with(ctx, func(now *session) (err error) {
		s = now
		views, err = b.look(ctx, s, seen, glance{watch: true})
		return err
	}); err != nil {
		return b.fail("listen", ctxFirst(ctx, err))
	}
	for i, v := range views {
		l := v.lease
		if v.held() && l.Term == seen[i].Term { // renewals are no news
			l.Beat, l.Watch, l.TTL, l.Renew = seen[i].Beat, seen[i].Watch, seen[i].TTL, seen[i].Renew
		}
		if l.Differs(seen[i]) {
			return nil
		}
	}
	for {
		news, rung := s.cache.rung()
		if rung {
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
