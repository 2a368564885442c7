package backend

import (
	"context"
	"slices"
	"sync"
)

// A Notifier makes Listen for a Backend that learns that something changed in its store, but
// not what: each Notify makes the listeners observe again. The zero value is ready for use,
// and safe for concurrent use.
type Notifier struct {
	mu       sync.Mutex
	notified chan struct{} // closed by the next Notify; nil: nobody waits for it
}

// Notify wakes all listeners. It does not block.
func (b *Notifier) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notified != nil {
		close(b.notified)
		b.notified = nil
	}
}

// Listen is [Backend].Listen, made of the Backend's own Observe: it observes at once, and
// again after each Notify, until a lease differs from what was seen. After a Notify during a
// reading another reading follows. Several during one reading count as one.
func (b *Notifier) Listen(ctx context.Context, seen []Lease, observe func(ctx context.Context, seen []Lease) ([]Lease, error)) error {
	for {
		notified := b.next()
		changed, err := observe(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case tells(changed, seen):
			return nil
		}
		select {
		case <-notified:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tells reports whether one of the leases differs from what was seen. Observe always returns
// those that were never held.
func tells(changed, seen []Lease) bool {
	now := make(map[string]*Lease, len(changed))
	for i := range changed {
		now[changed[i].Election] = &changed[i]
	}
	return slices.ContainsFunc(seen, func(l Lease) bool { return now[l.Election] != nil && now[l.Election].Differs(l) })
}

// next returns what the next Notify closes.
func (b *Notifier) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notified == nil {
		b.notified = make(chan struct{})
	}
	return b.notified
}
