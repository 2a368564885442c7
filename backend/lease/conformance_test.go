package lease_test

import (
	"testing"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
)

// TestConformance runs the suite over the protocol, in virtual time, on a store that tells of
// items and on one that only says that something has changed.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true,
		NewStore: func(testing.TB) conformance.Store {
			return suite(leasetest.NewStore(), func(d lease.Driver) lease.Driver { return d })
		},
	})
}
