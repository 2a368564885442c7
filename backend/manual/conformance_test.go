package manual_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

func open(t testing.TB, o manual.Options) *manual.Backend {
	t.Helper()
	return testbed.Open(t, manual.Open, o)
}

// TestConformance runs the suite in virtual time. Every candidate is named; the other tests
// of this package are about candidates that are not.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true,
		NewStore: func(testing.TB) conformance.Store {
			store := memory.New()
			return conformance.Store{Open: func(t testing.TB) backend.Backend {
				return open(t, manual.Options{Leader: manual.Self, Store: store})
			}}
		},
	})
}
