package memory_test

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
)

// TestConformance runs the suite that every backend must pass, in virtual time:
// on a store that pushes, and on one that must be polled.
func TestConformance(t *testing.T) {
	for _, poll := range []bool{false, true} {
		name := "pushed"
		if poll {
			name = "polled"
		}
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, conformance.Harness{
				Virtual: true,
				NewStore: func(testing.TB) conformance.Store {
					store := memory.New(&memory.Options{Poll: poll})
					return conformance.Store{Open: func(testing.TB) backend.Backend { return store.Backend() }}
				},
			})
		})
	}
}

// A manager makes what it reads harmless and remembers that. A store that went on to
// find it different from what it has would be read without a pause, for ever.
func TestWhatAHostileHolderHasWrittenIsNewsOnce(t *testing.T) {
	store := memory.New(nil)
	b := store.Backend()
	evil := backend.Candidate{ID: "a\x1b]0;\u202e", Nonce: backend.NewNonce(), Metadata: "\xff"}
	seen, _, err := b.Observe(t.Context(), []backend.Lease{{Election: "x"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: evil, TTL: time.Hour, Renew: time.Hour, Over: seen[0]}}); err != nil {
		t.Fatal(err)
	}
	reader := store.Backend()
	news, _, err := reader.Observe(t.Context(), seen, "")
	if err != nil || len(news) != 1 {
		t.Fatal(news, err)
	}
	news[0] = backend.CleanLease(news[0])
	if again, _, err := reader.Observe(t.Context(), news, ""); err != nil || len(again) > 0 {
		t.Errorf("the same lease is news again: %v %v", again, err)
	}
}
