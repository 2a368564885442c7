//go:build linux

package chaos

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// harmful is what is done to a server, or undone.
type harmful = func(*testbed.Daemon, testing.TB)

// ensembleFaults are faults of the servers of an ensemble.
func ensembleFaults(nodes []*testbed.Daemon) map[string]fault {
	// head harms the server that leads the ensemble.
	head := func(do harmful, least, most time.Duration, undo harmful) fault {
		return func(r *run) {
			n := testbed.Leader(r, nodes)
			harm(n.Addr(), byRenewal, func(t testing.TB) { do(n, t) }, least, most, func(t testing.TB) { undo(n, t) })(r)
		}
	}
	cut := func(on bool) harmful {
		return func(n *testbed.Daemon, t testing.TB) { n.Host().Cut(t, on) }
	}
	return map[string]fault{
		"servers' leader killed":  head((*testbed.Daemon).Kill, ttl, 2*ttl, (*testbed.Daemon).Start),
		"servers' leader stopped": head((*testbed.Daemon).Stop, ttl, 3*ttl, (*testbed.Daemon).Continue),
		"servers' leader cut off": head(cut(true), ttl, 3*ttl, cut(false)),
		"quorum lost": func(r *run) {
			lead := slices.Index(nodes, testbed.Leader(r, nodes))
			two := []*testbed.Daemon{nodes[lead], nodes[(lead+1)%len(nodes)]}
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
	nodes := testbed.StartEtcdCluster(t, 3, testbed.Options{})
	return newSite(t, "etcd x3", 3*time.Second, testbed.Addrs(nodes), etcdEnviron(rand.Text()+"/"), ensembleFaults(nodes))
}

func zooKeeperEnsemble(t testing.TB, backend string, how func(root string) reach) *Site {
	nodes := testbed.StartZooKeeperEnsemble(t, 3)
	return newSite(t, backend+" x3", ttl+3*time.Second, testbed.Addrs(nodes), how("/"+rand.Text()), ensembleFaults(nodes))
}

// consulEnsemble gives each member its own agent, as is usual. Here the agents are servers.
func consulEnsemble(t testing.TB) *Site {
	nodes := testbed.StartConsulCluster(t, 3)
	site := newSite(t, "consul x3", ttl+6*time.Second, testbed.Addrs(nodes), consulEnviron(rand.Text()), ensembleFaults(nodes))
	for i, proxies := range site.proxies {
		site.proxies[i] = proxies[i : i+1]
	}
	return site
}
