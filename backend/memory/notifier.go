package memory

import (
	"context"
	"slices"
	"sync"

	"github.com/go-election/go-election/backend"
)

// A notifier implements Listen for a store that learns that a lease has changed, but not which:
// each notify makes the listeners observe again. The zero value is ready for use.
type notifier struct {
	mu       sync.Mutex
	notified chan struct{} // closed by the next notify; nil: nobody waits for it
}

// notify wakes all listeners. It does not block.
func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notified != nil {
		close(n.notified)
		n.notified = nil
	}
}

// listen is Listen. It calls observe at once, and again after each notify, until a lease differs
// from what was seen. However often notify was called during observe, one more call follows.
func (n *notifier) listen(ctx context.Context, seen []backend.Lease, observe func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error)) error {
	for {
		notified := n.next()
		changed, err := observe(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case anyDiffers(changed, seen):
			return nil
		}
		select {
		case <-notified:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// anyDiffers reports whether one of the leases differs from what was seen. It is not enough that
// Observe returned a lease: it always returns those that were never held.
func anyDiffers(changed, seen []backend.Lease) bool {
	now := make(map[string]*backend.Lease, len(changed))
	for i := range changed {
		now[changed[i].Election] = &changed[i]
	}
	return slices.ContainsFunc(seen, func(l backend.Lease) bool { return now[l.Election] != nil && now[l.Election].Differs(l) })
}

// next returns what the next notify closes.
func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notified == nil {
		n.notified = make(chan struct{})
	}
	return n.notified
}
