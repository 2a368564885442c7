package etcd

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// calm has the options of clusters without faults: on a busy machine the members must not elect another leader of etcd.
var calm = testbed.Options{Args: []string{"--heartbeat-interval=100", "--election-timeout=2000"}}

// TestConformanceOnThreeNodes runs the conformance suite on a cluster without faults.
func TestConformanceOnThreeNodes(t *testing.T) {
	t.Parallel()
	endpoints := urls(testbed.StartEtcdCluster(t, 3, calm))
	conformance.Run(t, harness(func(t testing.TB) conformance.Store { return newStore(t, endpoints) }))
}

func urls(nodes []*testbed.Daemon) (all []string) {
	for _, n := range nodes {
		all = append(all, n.URL())
	}
	return all
}

// etcd's own leader is stopped, another member replaces it, and the old one continues. The
// election keeps its leader, and there is never a second one.
func TestALeaderSurvivesAChangeOfEtcdsLeader(t *testing.T) {
	t.Parallel()
	nodes := testbed.StartEtcdCluster(t, 3, testbed.Options{})
	o := options(urls(nodes)...)
	const ttl = 15 * time.Second // etcd needs a second or two to choose, on a busy machine more
	a, b := join(t, "a", ttl, o), join(t, "b", ttl, o)
	lead, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	testbed.NoError(t, b.Lead(nil))
	drivertest.OneLeaderAtMost(t, a, b)
	for range 2 {
		old := testbed.Leader(t, nodes)
		old.Stop(t)
		testbed.Leader(t, nodes, old)
		drivertest.KeepsLeading(t, lead, ttl*2/5) // a renewal falls into this time
		old.Continue(t)
	}
	drivertest.KeepsLeading(t, lead, ttl*2/5) // more than a TTL after the first change: without renewals it would have ended
}

// A leader whose only endpoint is cut off from the other members steps down before another
// process leads. A member that led etcd when it was cut off confirms nothing.
func TestACutOffMemberConfirmsNothing(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			nodes := testbed.StartEtcdCluster(t, 3, testbed.Options{})
			at := slices.Index(nodes, testbed.Leader(t, nodes))
			if role == "follower" {
				at = (at + 1) % 3
			}
			o := options(nodes[at].URL())
			a := join(t, "a", 3*time.Second, o)
			o.Endpoints = []string{nodes[(at+1)%3].URL(), nodes[(at+2)%3].URL()}
			b := join(t, "b", 3*time.Second, o)
			drivertest.StepsDownFirst(t, func(on bool) { nodes[at].Host().Cut(t, on) }, a, b)
		})
	}
}

// A member of etcd that hangs costs no one a lease: calls that it does not answer are sent to another.
func TestCallsSucceedBesideAStoppedMember(t *testing.T) {
	t.Parallel()
	nodes := testbed.StartEtcdCluster(t, 3, calm)
	a := openNode(t, "a", options(urls(nodes)...))
	held := a.Leads("jobs")
	led := testbed.Leader(t, nodes)
	hangs := nodes[slices.IndexFunc(nodes, func(n *testbed.Daemon) bool { return n != led })]
	hangs.Stop(t)
	defer hangs.Continue(t)
	a.Limit = ttl
	for i := range 3 {
		a.Keeps(held)
		a.Resigns(a.Leads(fmt.Sprint("more", i)))
	}
}

// What is behind a proxy is gone, which goes on acknowledging. Another connection is there before the lease ends.
func TestADeadConnectionCostsNoLeadership(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second // after two calls that failed, seconds are left for a busy machine
	proxy := testbed.StartEtcd(t, calm).Proxy(t)
	led, err := join(t, "a", ttl, options("http://"+proxy.Addr())).Campaign(t.Context())
	testbed.NoError(t, err)
	for range 3 {
		proxy.Break()
		drivertest.KeepsLeading(t, led, ttl+time.Second)
	}
}

// A balancer, or a name of several addresses, leads to a member that is cut off from the others: it answers pings, and no
// call. Its clients are led to another member, though nothing closes their connections.
func TestAMemberThatIsCutOffBehindABalancerIsLeft(t *testing.T) {
	t.Parallel()
	nodes := testbed.StartEtcdCluster(t, 3, testbed.Options{})
	at := (slices.Index(nodes, testbed.Leader(t, nodes)) + 1) % 3
	balancer := nodes[at].Proxy(t)
	e := join(t, "a", 3*time.Second, options("http://"+balancer.Addr()))
	testbed.NoError(t, e.Lead(nil))
	for _, leads := range []bool{true, false, true} {
		testbed.Eventually(t, patience, fmt.Sprint("it leads: ", leads), func() error {
			if e.Leading() != leads {
				return fmt.Errorf("%v", e.Current())
			}
			return nil
		})
		balancer.SetTarget(nodes[(at+1)%3].Addr())
		nodes[at].Host().Cut(t, true)
	}
}

// A single node loses all data, and counts revisions anew. Its former leader leads again, in a later term: it does not wait
// until the revisions have caught up.
func TestAFormerLeaderCanLeadARebuiltStore(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.Options{})
	admin := dial(t, n.URL())
	for range 200 {
		if _, err := admin.Put(t.Context(), "other", "x"); err != nil {
			t.Fatal(err)
		}
	}
	e := join(t, "a", 3*time.Second, options(n.URL()))
	testbed.NoError(t, e.Lead(nil))
	term := uint64(0)
	leadsAfter := func(what string) {
		t.Helper()
		testbed.Eventually(t, patience, what, func() error {
			now := e.Leadership()
			if now == nil || now.Term <= term {
				return fmt.Errorf("%v", e.Current())
			}
			term = now.Term
			return nil
		})
	}
	leadsAfter("it leads")
	n.Kill(t)
	n.ReplaceData(t, "")
	n.Start(t)
	leadsAfter("it leads again")
}
