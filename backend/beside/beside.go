package beside

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// An Inner is what a Backend is made over: one of package backend/lease.
type Inner interface {
	backend.Backend
	backend.Marker
	backend.Adopter
	backend.Inspector
	backend.Preflighter
	Enter(nonce backend.Nonce) error
}

// inner is what the methods of a Backend that are not here belong to: only members of this module obey
// requests and have member records.
type inner = Inner

// A Backend elects by a lease and a lock. It implements [backend.Backend].
type Backend struct {
	inner
	lock   Lock
	name   string
	maxTTL time.Duration

	mu      sync.Mutex
	takenIn map[string]uint64 // by election: the term in which this process may have the lock
}

var (
	_ Inner           = (*Backend)(nil)
	_ backend.Located = (*Backend)(nil)
)

// New returns a Backend over both, which belong to it from now on. It does not use them. name is the one by
// which the Backend is registered. maxTTL is the greatest TTL of a lease beside the lock.
func New(name string, inner Inner, lock Lock, maxTTL time.Duration) *Backend {
	return &Backend{inner: inner, lock: lock, name: name, maxTTL: maxTTL, takenIn: map[string]uint64{}}
}

// Format prints only the name of the type: what is within may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, b.name+".Backend") }

// Location implements [backend.Located]: that of the inner Backend.
func (b *Backend) Location() string { return clean.Where(b.inner) }

// Guarantees returns those of the inner Backend, which hold between members of this module. Other
// programs tell nobody of their changes, so that leases are also polled.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.inner.Guarantees()
	g.Name, g.Poll, g.MaxTTL = b.name, true, min(g.MaxTTL, b.maxTTL)
	return g
}

// Preflight implements [backend.Preflighter]: for the inner Backend, and for the lock.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := b.inner.Preflight(ctx, bids)
	for i, err := range b.lock.Preflight(ctx, elections(bids, electionOf)) {
		errs[i] = cmp.Or(errs[i], err)
	}
	return errs
}

// Close closes the lock and the inner Backend. It gives nothing back.
func (b *Backend) Close() error { return backend.Join(b.lock.Close(), b.inner.Close()) }
