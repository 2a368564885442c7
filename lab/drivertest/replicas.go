package drivertest

import (
	"testing"
	"time"

	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// A Replicated server is a primary, or a replica that can be promoted.
type Replicated[S any] interface {
	Addr() string
	Kill(t testing.TB)
	CatchUp(t testing.TB, primary S) // the replica has all that the primary has written
	StopReplication(t testing.TB)    // the replica gets no further writes
	Promote(t testing.TB)            // the replica is a primary
}

// Failovers is the fault of a suite that kills a primary and promotes its replica, behind a proxy that leads
// to the primary. If loses is set, the replica lacks the last writes at each second failover. follow starts a
// replica.
func Failovers[S Replicated[S]](
	t testing.TB, proxy *testbed.Proxy, primary S, loses bool, follow func(t testing.TB, primary S) S,
) conformance.Fault {
	replica, failovers := follow(t, primary), 0
	return func(bool, string) error {
		replica.CatchUp(t, primary)
		if loses && failovers%2 == 0 {
			replica.StopReplication(t)
			<-time.After(time.Second) // renewals that the replica will never see
		}
		failovers++
		primary.Kill(t)
		replica.Promote(t)
		proxy.SetTarget(replica.Addr())
		proxy.Reset()
		primary = replica
		replica = follow(t, primary)
		return nil
	}
}
