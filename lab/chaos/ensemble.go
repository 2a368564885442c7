//go:build linux

package chaos

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// ensembleFaults are faults of the servers of an ensemble.
func ensembleFaults[N testbed.Peer](nodes []N) map[string]fault {
	// head harms the server that leads the ensemble.
	head := func(do func(n N, r *run), least, most time.Duration, undo func(n N, r *run)) fault {
		return func(r *run) {
			n := testbed.Leader(r, nodes)
			harm(n.Addr(), byRenewal, func(testing.TB) { do(n, r) }, least, most, func(testing.TB) { undo(n, r) })(r)
		}
	}
	return map[string]fault{
		"servers' leader killed":  head(func(n N, r *run) { n.Kill(r) }, ttl, 2*ttl, func(n N, r *run) { n.Start(r) }),
		"servers' leader stopped": head(func(n N, r *run) { n.Stop(r) }, ttl, 3*ttl, func(n N, r *run) { n.Continue(r) }),
		"servers' leader cut off": head(func(n N, r *run) { n.Host().Cut(r, true) }, ttl, 3*ttl, func(n N, r *run) { n.Host().Cut(r, false) }),
		"quorum lost": func(r *run) {
			lead := slices.Index(nodes, testbed.Leader(r, nodes))
			two := []N{nodes[lead], nodes[(lead+1)%len(nodes)]}
			r.inject(two[0].Addr(), byCall, func() {
				for _, n := range two {
					n.Stop(r)
				}
				r.wait(ttl/2, 3*ttl)
				for _, n := range two {
					n.Continue(r)
				}
			})
		},
		"servers restarted in turn": func(r *run) {
			first := r.IntN(len(nodes))
			for i := range nodes {
				n := nodes[(first+i)%len(nodes)]
				r.inject(n.Addr(), byRenewal, func() {
					n.Terminate(r)
					n.Start(r)
				})
			}
		},
	}
}

func etcdEnsemble(t testing.TB) *Site {
	nodes := testbed.StartEtcdCluster(t, testbed.NewNetwork(t, 3), 3, testbed.EtcdOptions{})
	return newSite(t, "etcd x3", 3*time.Second, testbed.Addrs(nodes), etcdEnviron(rand.Text()+"/"), ensembleFaults(nodes))
}

func zooKeeperEnsemble(t testing.TB, backend string, how func(root string) reach) *Site {
	nodes := testbed.StartZooKeeperEnsemble(t, testbed.NewNetwork(t, 3), 3)
	return newSite(t, backend+" x3", ttl+3*time.Second, testbed.Addrs(nodes), how("/"+rand.Text()), ensembleFaults(nodes))
}

// consulEnsemble gives each member its own agent, as is usual. Here the agents are servers.
func consulEnsemble(t testing.TB) *Site {
	nodes := testbed.StartConsulCluster(t, testbed.NewNetwork(t, 3), 3)
	site := newSite(t, "consul x3", ttl+6*time.Second, testbed.Addrs(nodes), consulEnviron(rand.Text()), ensembleFaults(nodes))
	for i, proxies := range site.proxies {
		site.proxies[i] = proxies[i : i+1]
	}
	return site
}
