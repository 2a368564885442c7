package beside

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/single"
)

// An Inner is what a Backend is made over: a Backend of this module whose store keeps marks.
type Inner interface {
	backend.Backend
	backend.Marker
}

// inner is what the methods of a Backend that are not here belong to: only members of this module obey requests
// and have member records.
type inner = Inner

// A Backend elects by a lease and a lock. It implements [backend.Backend].
type Backend struct {
	inner
	lock  Lock
	name  string
	owner single.Owner

	mu      sync.Mutex
	takenIn map[string]uint64 // by election: the term in which this process may have the lock
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Marker      = (*Backend)(nil)
	_ backend.Preparer    = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Adopter     = (*Backend)(nil)
)

// New returns a Backend over both, which belong to it from now on. It does not use them.
func New(inner Inner, lock Lock) *Backend {
	return &Backend{inner: inner, lock: lock, name: lock.Limits().Name, takenIn: map[string]uint64{}}
}

// Format prints only the name of the type: what is within may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, b.name+".Backend") }

// Location implements [backend.Located]: that of the inner Backend.
func (b *Backend) Location() string { return clean.Where(b.inner) }

// Guarantees returns those of the inner Backend, which hold between members of this module. Other
// programs tell nobody of their changes, so that leases are also polled.
func (b *Backend) Guarantees() backend.Guarantees {
	g, limits := b.inner.Guarantees(), b.lock.Limits()
	g.Name, g.Poll = b.name, true

	if limits.MaxTTL > 0 && (g.MaxTTL == 0 || limits.MaxTTL < g.MaxTTL) {
		g.MaxTTL = limits.MaxTTL
	}
	return g
}

// Prepare implements [backend.Preparer] for the inner Backend. What belongs to other programs is left alone.
func (b *Backend) Prepare(ctx context.Context) error {
	if p, ok := b.inner.(backend.Preparer); ok {
		return p.Prepare(ctx)
	}
	return nil
}

// Preflight implements [backend.Preflighter]: for the inner Backend, and for the lock.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	if err := b.enter(ctx, bids[0].Candidate.Nonce); err != nil {
		return slices.Repeat([]error{err}, len(bids))
	}
	if p, ok := b.inner.(backend.Preflighter); ok {
		errs = p.Preflight(ctx, bids)
	}

	for i, err := range b.lock.Preflight(ctx, electionsOf(bids)) {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// Inspect implements [backend.Inspector]: it reports what the inner Backend reports.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	if i, ok := b.inner.(backend.Inspector); ok {
		return i.Inspect(ctx, ttl, renew)
	}
	return nil, nil
}

// Close closes the lock and the inner Backend. It gives nothing back.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	return backend.Join(b.lock.Close(), b.inner.Close())
}

// enter begins a call for the candidate with this nonce, or for any if that is empty. It fails if the Backend is
// closed or serves another candidate.
func (b *Backend) enter(ctx context.Context, nonce backend.Nonce) error {
	if err := b.owner.Enter(ctx, nonce); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return nil
}
