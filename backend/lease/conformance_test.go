package lease_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/conformance"
)

// TestConformance runs the suite over the protocol, in virtual time, on a store that tells of
// items and on one that only says that something has changed.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true,
		NewStore: func(testing.TB) conformance.Store {
			store := leasetest.NewStore()
			return conformance.Store{
				Open: func(testing.TB) backend.Backend { return lease.New(store.Driver()) },
				Faults: map[string]conformance.Fault{
					conformance.FaultDeleteRecord: func(_ bool, election string) error {
						store.Delete(lease.Key{Kind: lease.Records, Name: election})
						return nil
					},
				},
			}
		},
	})
}
