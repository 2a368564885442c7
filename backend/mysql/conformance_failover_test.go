package mysql

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// TestConformanceThroughAFailover runs the cases that a failover interrupts: the primary is
// killed and its replica promoted, behind the same address, first without the last writes and
// then with all of them.
func TestConformanceThroughAFailover(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		h := realTime(func(t testing.TB) conformance.Store { return newReplicated(t, k) })
		h.Only = func(c conformance.Case) bool { return c.Fault == conformance.FaultFailover }
		conformance.Run(t, h)
	})
}

// newReplicated makes a store on a primary with a replica, behind a proxy that leads to the
// primary.
func newReplicated(t testing.TB, k testbed.Kind) conformance.Store {
	primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
	d, proxy := primary.Database(t), primary.Proxy(t)
	config := proxy.Config(d.User)
	var prefix string
	store := newStore(t, d, func(p string) Options {
		prefix = p
		return Options{Config: config, Prefix: p}
	})
	failovers := 0
	store.Faults = map[string]conformance.Fault{
		conformance.FaultFailover: func(bool, string) error {
			if failovers == 0 {
				// A short greatest TTL, or a case takes a minute.
				d.Exec(t, fmt.Sprintf("UPDATE %s_lease SET ttl_us = 3000000 WHERE name = ''", prefix))
			}
			replica.WaitCaughtUp(t)
			if failovers%2 == 0 {
				replica.StopReplication(t)
				// Renewals that the replica will never see.
				<-time.After(time.Second)
			}
			failovers++
			primary.Kill(t)
			replica.Promote(t)
			proxy.SetTarget(replica.Addr())
			proxy.Reset()
			primary = replica.Server
			replica = testbed.StartReplica(t, primary)
			return nil
		},
	}
	return store
}
