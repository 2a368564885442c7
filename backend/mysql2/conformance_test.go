package mysql

import (
	"testing"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/internal/testbed"
)

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			l := newLab(t, server)
			return func(t testing.TB) lease.Driver { return open(t, Options{Config: l.User}) }
		}})
	})
}
