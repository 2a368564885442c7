package migration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
)

// TestConformance runs the suite on two stores in memory, at each stage.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To} {
		for _, poll := range []bool{false, true} {
			name := string(stage) + ", pushed"
			if poll {
				name = string(stage) + ", polled"
			}
			t.Run(name, func(t *testing.T) {
				conformance.Run(t, conformance.Harness{
					Virtual: true, Short: true,
					NewStore: func(testing.TB) conformance.Store {
						p := newPair(poll, 0)
						return conformance.Store{Open: func(t testing.TB) backend.Backend { return p.open(t, stage) }}
					},
				})
			})
		}
	}
}

// A pair is two stores.
type pair struct {
	old, new store
}

// newPair makes two stores. The clock of the new one is ahead by skew, which may be negative.
func newPair(poll bool, skew time.Duration) *pair {
	return &pair{old: store{memory.New(), poll, max(-skew, 0)}, new: store{memory.New(), poll, max(skew, 0)}}
}

// A store is in memory. It may have to be polled, and its clock may be ahead.
type store struct {
	*memory.Store
	poll  bool
	ahead time.Duration
}

func (s store) Backend() backend.Backend { return client{s.Store.Backend(), s} }

// A client is a client of a store.
type client struct {
	backend.Backend
	store store
}

func (v client) Guarantees() backend.Guarantees {
	g := v.Backend.Guarantees()
	g.Push, g.Poll = !v.store.poll, v.store.poll
	return g
}

func (v client) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return v.Backend.(backend.Marker).Mark(ctx, held)
}

// Acquire makes terms start at the time of the store's clock. A store's clock decides nothing
// else.
func (v client) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	bids = slices.Clone(bids)
	for i := range bids {
		bids[i].MinTerm = max(bids[i].MinTerm, uint64(time.Now().Add(v.store.ahead).UnixMicro()-1))
	}
	return v.Backend.Acquire(ctx, bids)
}

// open returns a migration at a stage.
func (p *pair) open(t testing.TB, stage migration.Stage) backend.Backend {
	return road(t, migration.Options{From: p.old.Backend(), To: p.new.Backend(), ToName: "new", Stage: stage})
}
