package manual

import (
	"fmt"
	"hash/fnv"

	"github.com/go-election/go-election/backend"
)

// isMe reports whether an id of an assignment is this process.
func (b *Backend) isMe(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return id == Self || id != "" && id == b.id
}

// lease is what this process must make of a lease as the inner store has it.
func (b *Backend) lease(in backend.Lease, a assignment) backend.Lease {
	id := a.named(in.Election)
	switch me := b.isMe(id); {
	case !in.Vacant() && in.Holder.Nonce == b.guard.Nonce():
		// Ours, perhaps a leftover: a bid for it is granted anew, or released.
	case me && b.mustWatch(in, a):
		in.Ref, in.ObserveFor = fmt.Sprintf("version %d", a.Version), b.maxTTL
	case me:
	default:
		in.ObserveFor = backend.ExpiresInStore // the operator is the store
		if b.apart && in.Vacant() && id != "" {
			// By our configuration. Nothing else is known of it.
			in.Holder.ID, in.Heartbeat = id, stamp(a.Version, id)
		}
	}
	return in
}

// mustWatch reports whether somebody else may have led until now, who was named
// by an earlier version of the file: not if we have led under this one.
func (b *Backend) mustWatch(in backend.Lease, a assignment) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.file != "" && !b.kept && in.Vacant() && b.led[in.Election] != a.Version
}

// stamp stands for a heartbeat where there is none.
func stamp(version uint64, id string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", version, id)
	return h.Sum64() | 1
}
