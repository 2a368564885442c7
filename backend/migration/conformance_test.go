package migration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformance runs the suite on two stores in memory, at each stage.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, stage := range []migration.Stage{from, both, to} {
		for _, poll := range []bool{false, true} {
			name := string(stage) + map[bool]string{false: ", pushed", true: ", polled"}[poll]
			runInMemory(t, name, func() func(testing.TB) backend.Backend {
				p := newPair(poll, 0)
				return func(t testing.TB) backend.Backend { return p.open(t, stage) }
			})
		}
	}
}

// The old store is manual: programs that had their leader in a configuration. Every candidate is named. Without a directory
// an assignment cannot be sealed, so members at stage to have Unsealed.
func TestConformanceFromAPinnedMachine(t *testing.T) {
	t.Parallel()
	for _, stage := range []migration.Stage{both, to} {
		runInMemory(t, string(stage), func() func(testing.TB) backend.Backend {
			pinned, fresh := memory.New(), memory.New()
			return func(t testing.TB) backend.Backend {
				from, err := manual.Open(manual.Options{Leader: manual.Self, Store: pinned})
				testbed.NoError(t, err)
				return road(t, migration.Options{From: from, To: fresh.Backend(), Stage: stage, Unsealed: stage == to})
			}
		})
	}
}

// runInMemory runs the suite in virtual time. place makes fresh stores, and returns how to open them.
func runInMemory(t *testing.T, name string, place func() (open func(testing.TB) backend.Backend)) {
	t.Run(name, func(t *testing.T) {
		conformance.Run(t, conformance.Harness{
			Virtual: true, Short: true,
			NewStore: func(testing.TB) conformance.Store { return conformance.Store{Open: place()} },
		})
	})
}

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

func (s store) Backend() Inner { return client{s.Store.Backend().(Inner), s} }

type client struct {
	Inner
	store store
}

func (v client) Guarantees() backend.Guarantees {
	g := v.Inner.Guarantees()
	g.Push, g.Poll = !v.store.poll, v.store.poll
	return g
}

// Acquire makes terms start at the time of the store's clock. A store's clock decides nothing else.
func (v client) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	bids = slices.Clone(bids)
	for i := range bids {
		bids[i].MinTerm = max(bids[i].MinTerm, uint64(time.Now().Add(v.store.ahead).UnixMicro()-1))
	}
	return v.Inner.Acquire(ctx, bids)
}

func (p *pair) open(t testing.TB, stage migration.Stage) backend.Backend {
	return road(t, migration.Options{From: p.old.Backend(), To: p.new.Backend(), ToName: "new", Stage: stage})
}
