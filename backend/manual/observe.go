package manual

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
)

// Observe reads leases and the assignment.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	now, err := b.observe(ctx, seen)
	if err != nil {
		return nil, fail("observe", err)
	}
	for i, l := range seen {
		if l.Version == "" || now[i].Differs(l) {
			changed = append(changed, now[i].Lease)
		}
	}
	return changed, nil
}

// An observed lease is the one that this process must go by, with that of the inner store.
type observed struct {
	backend.Lease
	inner backend.Lease
}

func (b *Backend) observe(ctx context.Context, seen []backend.Lease) ([]observed, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	a, err := b.assignment()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	inner, err := b.readInner(ctx, names...)
	if err != nil {
		return nil, err
	}
	leases := make([]observed, len(seen))
	for i, l := range inner {
		leases[i] = observed{b.lease(l, a), l}
	}
	return leases, nil
}

// assignmentEvery is how often Listen reads the assignment.
const assignmentEvery = 250 * time.Millisecond

// Listen waits for a change of a lease or of the assignment.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	now, err := b.observe(ctx, seen)
	if err != nil {
		return fail("listen", err)
	}
	inner := make([]backend.Lease, len(seen))
	for i, l := range seen {
		if now[i].Differs(l) {
			return nil
		}
		inner[i] = now[i].inner
	}
	innerCtx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.inner.Listen(innerCtx, inner) }()
	received := false
	defer func() {
		if cancel(); !received {
			<-ended
		}
	}()
	tick := time.NewTicker(assignmentEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			received = true
			return fail("listen", err)
		case <-tick.C:
			a, err := b.assignment()
			if err != nil {
				return nil // Observe reports it
			}
			for i, l := range seen {
				if b.lease(inner[i], a).Differs(l) {
					return nil
				}
			}
		}
	}
}
