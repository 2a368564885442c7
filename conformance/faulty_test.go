package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// faulty is memory with hooks that replace methods by wrong ones.
type faulty struct {
	backend.Backend
	store  *memory.Store
	closed chan struct{}
	close  sync.Once

	acquire func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error)
	renew   func(ctx context.Context, held []backend.Held) ([]backend.Answer, error)
	release func(ctx context.Context, held []backend.Held) error
	observe func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error)
	listen  func(ctx context.Context, seen []backend.Lease) error
	request func(ctx context.Context, requests []backend.Request) error
	claims  func(backend.Guarantees) backend.Guarantees
}

func newFaulty(store *memory.Store) *faulty {
	b := store.Backend()
	return &faulty{
		Backend: b, store: store, closed: make(chan struct{}), acquire: b.Acquire, renew: b.Renew,
		release: b.Release, observe: b.Observe, listen: b.Listen, request: b.Request,
		claims: func(g backend.Guarantees) backend.Guarantees { return g },
	}
}

func (f *faulty) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	return f.acquire(ctx, bids)
}

func (f *faulty) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return f.renew(ctx, held)
}

func (f *faulty) Observe(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
	return f.observe(ctx, seen)
}

func (f *faulty) Release(ctx context.Context, held []backend.Held) error { return f.release(ctx, held) }

func (f *faulty) Listen(ctx context.Context, seen []backend.Lease) error { return f.listen(ctx, seen) }

func (f *faulty) Request(ctx context.Context, q []backend.Request) error { return f.request(ctx, q) }

func (f *faulty) Guarantees() backend.Guarantees { return f.claims(f.Backend.Guarantees()) }

func (f *faulty) Close() error {
	f.close.Do(func() { close(f.closed) })
	return f.Backend.Close()
}

func (f *faulty) current(seen []backend.Lease) []backend.Lease {
	var zero []backend.Lease
	for _, l := range seen {
		zero = append(zero, backend.Lease{Election: l.Election})
	}
	leases, _ := f.Backend.Observe(context.Background(), zero)
	return leases
}

func (f *faulty) now(election string) backend.Lease {
	return f.current([]backend.Lease{{Election: election}})[0]
}

// clientOf returns a client that the store takes for the holder of a lease. It does what
// a statement does that is not limited to a nonce.
func (f *faulty) clientOf(held backend.Lease) backend.Backend {
	other := f.store.Backend()
	held.Election, held.Term = "another election", 1
	other.Renew(context.Background(), []backend.Held{held.Held()}) // gives the client its nonce
	return other
}

// bids, renewals and releases return mistakes that change each item of a call, and readings those that change what is read.

func bids(change func(*faulty, *backend.Bid)) func(*faulty) {
	return func(f *faulty) {
		f.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			return f.Backend.Acquire(ctx, changed(f, bids, change))
		}
	}
}

func renewals(change func(*faulty, *backend.Held)) func(*faulty) {
	return func(f *faulty) {
		f.renew = func(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
			return f.Backend.Renew(ctx, changed(f, held, change))
		}
	}
}

func releases(change func(*faulty, *backend.Held)) func(*faulty) {
	return func(f *faulty) {
		f.release = func(ctx context.Context, held []backend.Held) error {
			return f.Backend.Release(ctx, changed(f, held, change))
		}
	}
}

func changed[T any](f *faulty, items []T, change func(*faulty, *T)) []T {
	items = slices.Clone(items)
	for i := range items {
		change(f, &items[i])
	}
	return items
}

func readings(change func(*backend.Lease)) func(*faulty) {
	return func(f *faulty) {
		f.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			leases, err := f.Backend.Observe(ctx, seen)
			for i := range leases {
				change(&leases[i])
			}
			return leases, err
		}
	}
}

func ignoreTerm(_ *faulty, h *backend.Held) { h.Term = 0 }

func fold(s string) string { return strings.ToLower(s) }
