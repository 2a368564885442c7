package relational

import (
	"context"
	"sync"

	"github.com/go-election/go-election/backend/lease"
)

// Notifications count how often something may have changed.
type Notifications struct {
	mu      sync.Mutex
	count   uint64
	changed chan struct{} // closed when the count grows; nil: nobody waits
}

// Noted says that something may have changed.
func (n *Notifications) Noted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// Position is how often something may have changed, plus one.
func (n *Notifications) Position() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count + 1
}

// Listen calls on whenever the position has grown, until on returns false. wait waits for that.
func (n *Notifications) Listen(position uint64, on func([]lease.Item, uint64) bool, wait func(position uint64) error) error {
	for {
		now := n.Position()
		if position == 0 || position > now || position < now && !on(nil, now) {
			return nil
		}
		if position == now {
			if err := wait(now); err != nil {
				return err
			}
		}
		position = now
	}
}

// Wait waits until the position is not the given one.
func (n *Notifications) Wait(ctx context.Context, position uint64) error {
	n.mu.Lock()
	if position != n.count+1 {
		n.mu.Unlock()
		return nil
	}
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	changed := n.changed
	n.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
