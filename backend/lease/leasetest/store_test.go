package leasetest_test

import (
	"testing"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
)

func TestTheStoreInsideTheProcessIsADriver(t *testing.T) {
	leasetest.Run(t, leasetest.Harness{NewStore: func(testing.TB) func(testing.TB) lease.Driver {
		store := leasetest.NewStore()
		return func(testing.TB) lease.Driver { return store.Driver() }
	}})
}
