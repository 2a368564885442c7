package conformance

import (
	"context"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// faulty is memory with hooks that replace methods by wrong ones.
type faulty struct {
	backend.Backend
	store  *memory.Store
	closed chan struct{}

	acquire func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error)
	renew   func(ctx context.Context, held []backend.Held) ([]backend.Answer, error)
	release func(ctx context.Context, held []backend.Held) error
	observe func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error)
	listen  func(ctx context.Context, seen []backend.Lease) error
	request func(ctx context.Context, requests []backend.Request) error
	claims  func(backend.Guarantees) backend.Guarantees
}

func (f *faulty) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if f.acquire != nil {
		return f.acquire(ctx, bids)
	}
	return f.Backend.Acquire(ctx, bids)
}

func (f *faulty) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if f.renew != nil {
		return f.renew(ctx, held)
	}
	return f.Backend.Renew(ctx, held)
}

func (f *faulty) Release(ctx context.Context, held []backend.Held) error {
	if f.release != nil {
		return f.release(ctx, held)
	}
	return f.Backend.Release(ctx, held)
}

func (f *faulty) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if f.observe != nil {
		return f.observe(ctx, seen)
	}
	return f.Backend.Observe(ctx, seen)
}

func (f *faulty) Listen(ctx context.Context, seen []backend.Lease) error {
	if f.listen != nil {
		return f.listen(ctx, seen)
	}
	return f.Backend.Listen(ctx, seen)
}

func (f *faulty) Request(ctx context.Context, requests []backend.Request) error {
	if f.request != nil {
		return f.request(ctx, requests)
	}
	return f.Backend.Request(ctx, requests)
}

func (f *faulty) Guarantees() backend.Guarantees {
	g := f.Backend.Guarantees()
	if f.claims != nil {
		g = f.claims(g)
	}
	return g
}

func (f *faulty) Close() error {
	select {
	case <-f.closed:
	default:
		close(f.closed)
	}
	return f.Backend.Close()
}

// current reads leases as they now are.
func (f *faulty) current(ctx context.Context, names ...string) []backend.Lease {
	var zero []backend.Lease
	for _, n := range names {
		zero = append(zero, backend.Lease{Election: n})
	}
	now, _ := f.Backend.Observe(ctx, zero)
	return now
}

// clientOf returns a client that the store takes for the holder of a lease. It does what
// a statement does that is not limited to a nonce.
func (f *faulty) clientOf(ctx context.Context, held backend.Lease) backend.Backend {
	other := f.store.Backend()
	held.Election, held.Term = "another election", 1
	other.Renew(ctx, []backend.Held{held.Held()}) // gives the client its nonce
	return other
}

// bidOverCurrent makes each bid that only selects expect the lease as it now is.
func (f *faulty) bidOverCurrent(ctx context.Context, bids []backend.Bid, only func(backend.Bid, backend.Lease) bool) []backend.Bid {
	bids = slices.Clone(bids)
	for i, b := range bids {
		if now := f.current(ctx, b.Election)[0]; only(b, now) {
			bids[i].Expected = now
		}
	}
	return bids
}

func fold(s string) string { return strings.ToLower(s) }
