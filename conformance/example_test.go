package conformance_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
)

// TestModel is a template for the test of your own backend: replace memory with your store.
func TestModel(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		// In real time, omit Virtual, choose a short lease, and run the cases in parallel: TTL: time.Second, Parallel: true.
		Virtual: true, Short: true,
		NewStore: func(testing.TB) conformance.Store {
			store := memory.New()
			return conformance.Store{
				Open: func(testing.TB) backend.Backend { return store.Backend() },
				// Faults: functions that harm the store, if you have any.
			}
		},
	})
}
