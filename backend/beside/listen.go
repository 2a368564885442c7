package beside

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// Listen implements [backend.Backend]. It hears of changes by members of this module. When one of them has
// released, its lock is free already: see "The order" in the package documentation.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return err
	}
	inner := make([]backend.Lease, len(seen))
	b.mu.Lock()
	for i, l := range seen {
		if b.versions[l.Election] != l.Version {
			b.mu.Unlock()
			return nil // a change that the caller has not seen
		}
		inner[i] = b.shown[l.Election]
	}
	b.mu.Unlock()

	queue, is := b.lock.(Queue)
	if !is {
		return ListenPastRenewals(ctx, b.inner, inner)
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	return first(ctx, func(ctx context.Context) error { return ListenPastRenewals(ctx, b.inner, inner) },
		func(ctx context.Context) error { return queue.Listen(ctx, names) })
}

// first returns the result of the function that returns first, when both have returned.
func first(ctx context.Context, f, g func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, 2)
	for _, f := range []func(context.Context) error{f, g} {
		go func() { results <- f(ctx) }()
	}
	err := <-results
	cancel()
	<-results
	return err
}

// ListenPastRenewals listens to one store of several for a manager that polls because of another
// ([backend.Guarantees].Poll). Such a manager reads at each expected renewal anyway. So
// ListenPastRenewals goes on if leases were only renewed. It overwrites those in seen.
func ListenPastRenewals(ctx context.Context, store backend.Backend, seen []backend.Lease) error {
	for {
		if err := store.Listen(ctx, seen); err != nil {
			return err
		}
		changed, err := store.Observe(ctx, seen)
		if err != nil || !onlyRenewed(changed, seen) {
			return nil
		}
	}
}

// onlyRenewed reports whether some of the leases in seen were renewed and nothing else has changed. It
// updates seen.
func onlyRenewed(changed, seen []backend.Lease) (some bool) {
	for _, l := range changed {
		for i, was := range seen {
			if was.Election != l.Election || !l.Differs(was) {
				continue
			}
			was.Version = l.Version
			if l.Vacant() || l.Differs(was) {
				return false
			}
			seen[i], some = l, true
		}
	}
	return some
}
