package migration_test

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
)

// TestConformance runs the suite on two stores in memory, at each stage.
func TestConformance(t *testing.T) {
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

// A pair is two stores, between which elections move.
type pair struct {
	old, new *memory.Store
}

// newPair makes two stores whose clocks differ by skew.
func newPair(poll bool, skew time.Duration) *pair {
	late := func() time.Time { return time.Now().Add(skew) }
	return &pair{old: memory.New(&memory.Options{Poll: poll}), new: memory.New(&memory.Options{Poll: poll, Now: late})}
}

// open returns a client at a stage.
func (p *pair) open(t testing.TB, stage migration.Stage) backend.Backend {
	b, err := migration.New(migration.Options{From: p.old.Backend(), To: p.new.Backend(), ToName: "new", Stage: stage})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
