package manual

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// isMe reports whether an id in an assignment names this process.
func (b *Backend) isMe(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return id == Self || id != "" && id == b.id
}

// lease turns the lease of the inner store into the one that this process must go by.
func (b *Backend) lease(inner backend.Lease, a assignment) backend.Lease {
	l := inner
	id := a.named(l.Election)
	switch me := b.isMe(id); {
	case !l.Vacant() && l.Holder.Nonce == b.owner.Nonce():
		// Ours, perhaps left from an earlier grant: a bid is granted anew, or releases it.
	case me && b.mustObserve(l, a):
		l.Version += fmt.Sprintf(" in version %d", a.Version)
		l.ObserveFor = b.maxTTL
	case me:
	default:
		l.ObserveFor = backend.ExpiresInStore // only the operator can free it
		if b.private && l.Vacant() && id != "" {
			// Nothing is known of the other process but that the configuration names it.
			l.Holder.ID, l.Version = id, fmt.Sprintf("assigned in version %d to %s", a.Version, id)
		}
	}
	return l
}

// mustObserve reports whether a candidate named by an earlier version of the file may
// still lead. It cannot if this process has already led under the current version.
func (b *Backend) mustObserve(l backend.Lease, a assignment) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.file != "" && !b.inDir && l.Vacant() && b.ledVersion[l.Election] != a.Version
}

// readInner reads leases from the inner store, one for each name and in that order.
func (b *Backend) readInner(ctx context.Context, names ...string) ([]backend.Lease, error) {
	leases := make([]backend.Lease, len(names))
	index := make(map[string]int, len(names))
	for i, name := range names {
		leases[i].Election, index[name] = name, i
	}
	found, err := b.inner.Observe(ctx, leases)
	if err != nil {
		return nil, err
	}
	for _, l := range found {
		leases[index[l.Election]] = l
	}
	return leases, nil
}
