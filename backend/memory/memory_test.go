package memory_test

import (
	"testing"

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
