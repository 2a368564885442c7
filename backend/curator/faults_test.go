package curator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// The suite's cases about server faults, each on its own server that is killed, frozen and cut off.
func TestConformanceThroughFaults(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Harness{
		TTL: ttl, Late: 2 * time.Second, Short: true, Parallel: true,
		NewStore: func(t testing.TB) conformance.Store {
			server := testbed.StartZooKeeper(t, testbed.Options{})
			proxy := server.Proxy(t)
			store := newStore(t, []string{server.Addr()}, func(root string) Options {
				return Options{ZooKeeper: zookeeper.Options{Servers: []string{proxy.Addr()}, Root: root}, Tick: tick, Session: tightSession}
			})
			maps.Copy(store.Faults, testbed.ServerFaults(t, server))
			maps.Copy(store.Faults, testbed.LineFaults(proxy))
			return store
		},
		Only: func(c conformance.Case) bool {
			return c.OwnServer() || c.Fault == conformance.FaultCut || c.Fault == conformance.FaultCutReplies
		},
	})
}

// TestConformanceOnAnEnsemble runs, on three servers, the suite's cases about the contract
// and those in which the ensemble loses its leader.
func TestConformanceOnAnEnsemble(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	h := conformance.Harness{
		TTL: ttl, Late: 3 * time.Second, Short: true,
		NewStore: func(t testing.TB) conformance.Store {
			addrs := testbed.Addrs(servers)
			store := newStore(t, addrs, func(root string) Options {
				return Options{ZooKeeper: zookeeper.Options{Servers: addrs, Root: root}, Tick: tick, Session: tightSession}
			})
			maps.Copy(store.Faults, testbed.LeaderFaults(t, servers))
			return store
		},
	}
	t.Run("the contract", func(t *testing.T) {
		h := h
		h.Parallel = true
		h.Only = func(c conformance.Case) bool {
			return strings.Contains("A1 A5 A7 R1 R3 R5 X1 X2 X4 O2 O3 N2 W1 W3 T2 M1", c.Rule)
		}
		conformance.Run(t, h)
	})
	h.Only = func(c conformance.Case) bool { return c.Rule == "S1" && c.OwnServer() }
	conformance.Run(t, h)
}

// A server that has no place for another connection of this address stalls for so long that too little is known of the
// session's life, while others wait for a place. The connections are kept: no other ones could be had.
func TestConnectionsAreKeptWhereNoOthersCanBeHad(t *testing.T) {
	t.Parallel()
	full := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxClientCnxns=2"}})
	a := newClient(t, "a", Options{ZooKeeper: zookeeper.Options{Servers: []string{full.Addr()}}, Tick: tick, Session: 12 * time.Second})
	held := a.Leads("jobs")
	a.Limit = time.Second
	for range 3 {
		testbed.DialZooKeeper(t, []string{full.Addr()}) // it waits
	}
	full.Stop(t)
	for stopped := time.Now(); time.Since(stopped) < 6500*time.Millisecond; {
		a.Renews(held) // in vain
	}
	full.Continue(t)
	for range 20 {
		if got := a.Renews(held); got.Outcome != backend.Granted {
			t.Fatalf("a renews after that: %v, %v", got.Outcome, got.Err)
		}
		<-time.After(tick)
	}
}

// Both connections of a leader are dead: that of its lease, and that of its lock.
func TestDeadConnectionsCostOneCall(t *testing.T) {
	t.Parallel()
	proxy := testbed.StartZooKeeper(t, testbed.Options{}).Proxy(t)
	a := newClient(t, "a", Options{ZooKeeper: zookeeper.Options{Servers: []string{proxy.Addr()}}, Tick: tick, Session: 12 * time.Second})
	held := a.Leads("jobs")
	for range 3 {
		proxy.Break()
		a.Limit = time.Second
		if got := a.Renews(held); got.Err == nil {
			t.Fatal("a dead connection has answered")
		}
		a.Limit = 4 * time.Second
		if got := a.Renews(held); got.Outcome != backend.Granted {
			t.Fatalf("the call after that: %v, %v", got.Outcome, got.Err)
		}
	}
}

// A follower that is cut off from its peers keeps answering its clients. A lease renewed by writes that this follower
// forwarded just before must not be trusted longer than its session, which the ensemble counts from what the follower
// reported earlier. See docs/design/curator.md, "A follower that is cut off".
func TestValidForEndsBeforeTheSession(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	root := "/z1"
	for round := range 2 {
		leader := testbed.Leader(t, servers)
		victim := slices.IndexFunc(servers, func(s *testbed.Daemon) bool { return s != leader })
		o := Options{ZooKeeper: zookeeper.Options{Servers: []string{servers[victim].Addr()}, Root: root}, Tick: tick, Session: tightSession}
		a := newClient(t, "a", o)
		var held backend.Lease
		deadline := time.Time{}
		pace := func() error { // renewals at their usual pace; the cut comes right after an answer
			held = a.TakesOver("jobs")
			for range 8 + round {
				start := time.Now()
				got := a.Renews(held)
				if got.Outcome != backend.Granted {
					return fmt.Errorf("%v, %v", got.Outcome, got.Err)
				}
				deadline = start.Add(got.ValidFor)
				if left := got.ValidFor; left < ttl/2 {
					t.Errorf("after a renewal the lease of %v is trusted for %v only", ttl, left)
				}
				<-time.After(ttl/3 - time.Since(start))
			}
			return nil
		}
		// On a busy machine the servers lose each other, and then the client its server.
		testbed.Eventually(t, patience, "renewals before the cut", pace)
		start := time.Now()
		got := a.Renews(held)
		servers[victim].Host().Cut(t, true)
		if got.Outcome == backend.Granted {
			deadline = start.Add(got.ValidFor)
		}
		a.expectNodeOutlives(t, leader, held, deadline)
		servers[victim].Host().Cut(t, false)
		a.kill()
		testbed.Eventually(t, patience, "the follower to join again", func() error {
			if servers[victim].Leads(t) || !servers[victim].Running() {
				return errNone
			}
			b := newClient(t, "b", o)
			b.Limit = 2 * time.Second
			_, err := b.Looks("x")
			return err
		})
	}
}

// expectNodeOutlives fails the test if the node of a lease vanishes before the deadline, or
// before that of a later renewal. The client's server was just cut off.
func (c *client) expectNodeOutlives(t testing.TB, leader *testbed.Daemon, held backend.Lease, deadline time.Time) {
	t.Helper()
	admin := testbed.DialZooKeeper(t, []string{leader.Addr()})
	path, cut := c.markPath(held), time.Now()
	c.Limit = ttl / 4
	for {
		start := time.Now()
		if got := c.Renews(held); got.Outcome == backend.Granted {
			deadline = start.Add(got.ValidFor)
		}
		// On a busy machine the others may lose each other for a moment.
		if there, _, err := admin.Exists(path); err == nil && !there {
			break
		} else if time.Since(cut) > patience {
			t.Fatal(err)
		}
	}
	gone := time.Now()
	t.Logf("the ensemble had ended the session %v after the end of ValidFor", gone.Sub(deadline))
	if gone.Before(deadline) {
		t.Errorf("the ensemble has ended the session %v before the end of ValidFor: two leaders", deadline.Sub(gone))
	}
}

// tightSession is enough for a lease of ttl.
const tightSession = ttl * 5 / 3

// markPath is the path of the mark beside the lock node.
func (c *client) markPath(held backend.Lease) string {
	return c.lock.layout.markPath(held.Election, held.Term)
}
