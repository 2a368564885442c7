package migration

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// Listen implements [backend.Backend]. It listens to the stores that notify.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	if b.stage == From {
		return b.old.Listen(ctx, seen)
	}
	var olds, news []backend.Lease
	b.mu.Lock()
	for _, l := range seen {
		p := b.pairs[l.Election]
		if p == nil || p.combined.Election == "" || p.combined.Differs(l) {
			b.mu.Unlock()
			return nil // a change that the caller has not seen
		}
		news = append(news, p.new.Lease)
		if !b.newDecides(p) {
			olds = append(olds, p.old.Lease)
		}
	}
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listen := func(store backend.Backend, leases []backend.Lease) func() error {
		return func() error {
			if len(leases) == 0 || !store.Guarantees().Push {
				return nil
			}
			if b.Guarantees().Poll { // the manager reads at each expected renewal anyway
				cancel(listenEnded{beside.ListenPastRenewals(ctx, store, leases)})
				return nil
			}
			cancel(listenEnded{store.Listen(ctx, leases)})
			return nil
		}
	}
	parallel(listen(b.old, olds), listen(b.new, news))
	var ended listenEnded
	if errors.As(context.Cause(ctx), &ended) {
		return ended.error
	}
	<-ctx.Done() // no store notifies
	return ctx.Err()
}

// listenEnded cancels the other Listen when that of one store has returned.
type listenEnded struct{ error }

func (e listenEnded) Error() string { return "a store has notified" }
