package drivertest

import (
	"testing"
	"time"

	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A Replicated server is a primary, or a replica that can be promoted.
type Replicated[S any] interface {
	Addr() string
	Proxy(t testing.TB) *testbed.Proxy
	Kill(t testing.TB)
	CatchUp(t testing.TB, primary S) // the replica has all that the primary has written
	StopReplication(t testing.TB)    // the replica gets no further writes
	Promote(t testing.TB)            // the replica is a primary
}

// Failovers is the fault of a suite that kills a primary and promotes its replica, behind a proxy that leads to the
// primary. If loses is set, the replica lacks the last writes at each second failover. follow starts a replica.
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

// WatchesItsOwnLeftover promotes a replica that shows the leadership of A, which has resigned since. The lost primary
// has granted the lease to B, which still leads. A sees that the lease is its own, and must watch it for the greatest
// TTL all the same. The join function opens a member with this greatest TTL, behind a proxy.
func WatchesItsOwnLeftover[S Replicated[S]](
	t testing.TB, primary, replica S, greatest time.Duration, join func(id string, proxy *testbed.Proxy) *election.Election,
) {
	t.Helper()
	toA, toB := primary.Proxy(t), primary.Proxy(t)
	a, b := join("a", toA), join("b", toB)
	old, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	replica.CatchUp(t, primary)
	replica.StopReplication(t)
	testbed.NoError(t, old.Resign(t.Context()))
	lead, err := b.Campaign(t.Context())
	testbed.NoError(t, err)
	testbed.NoError(t, a.Lead(nil)) // campaigns, and observes B

	toB.Cut(true)
	primary.Kill(t)
	replica.Promote(t)
	promoted := time.Now()
	toA.SetTarget(replica.Addr())
	toA.Reset()
	if !b.Leading() {
		t.Fatal("the promotion took longer than the TTL")
	}
	LeadsAlone(t, a, b)
	if took := time.Since(promoted); took < greatest {
		t.Errorf("A leads %v after the promotion; it must observe a lease of another epoch for the greatest TTL, %v", took, greatest)
	}
	if now := a.Leadership(); now != nil && now.Term <= lead.Term {
		t.Errorf("term %d after %d, which the replica never received", now.Term, lead.Term)
	}
}
