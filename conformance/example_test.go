package conformance_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
)

// TestModel is the model for the test of a backend of your own: put your store in
// place of memory.
func TestModel(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		// In real time, leave Virtual out, say how short a lease may be, and let
		// the cases run side by side: TTL: time.Second, Parallel: true.
		Virtual: true, Short: true,
		NewStore: func(testing.TB) conformance.Store {
			store := memory.New()
			return conformance.Store{
				Open: func(testing.TB) backend.Backend { return store.Backend() },
				// Faults: hooks to harm the store itself, if you have any.
			}
		},
	})
}
