//go:build linux

package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// harmful is what is done to a server, or undone.
type harmful = func(*testbed.Daemon, testing.TB)

// ensembleFaults are faults of the servers of an ensemble.
func ensembleFaults(nodes []*testbed.Daemon) map[string]fault {
	// head harms the server that leads the ensemble, and perhaps the next ones.
	head := func(n int, proof proof, do, undo harmful, least, most time.Duration) fault {
		return func(r *run) {
			lead := slices.Index(nodes, testbed.Leader(r, nodes))
			each := func(f harmful) func(testing.TB) {
				return func(t testing.TB) {
					for i := range n {
						f(nodes[(lead+i)%len(nodes)], t)
					}
				}
			}
			harm(nodes[lead].Addr(), proof, each(do), each(undo), least, most)(r)
		}
	}
	cut := func(on bool) harmful {
		return func(n *testbed.Daemon, t testing.TB) { n.Host().Cut(t, on) }
	}
	kill, start := (*testbed.Daemon).Kill, (*testbed.Daemon).Start
	stop, resume := (*testbed.Daemon).Stop, (*testbed.Daemon).Continue
	return map[string]fault{
		"servers' leader killed":  head(1, byRenewal, kill, start, ttl, 2*ttl),
		"servers' leader stopped": head(1, byRenewal, stop, resume, ttl, 3*ttl),
		"servers' leader cut off": head(1, byRenewal, cut(true), cut(false), ttl, 3*ttl),
		"quorum lost":             head(2, byCall, stop, resume, ttl/2, 3*ttl),
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
	site := newSite(t, "etcd x3", 3*time.Second, etcdEnviron(), testbed.Addrs(nodes)...)
	return site.with(ensembleFaults(nodes))
}

func zooKeepers(t testing.TB, backend string, how reach) *Site {
	nodes := testbed.StartZooKeeperEnsemble(t, 3)
	site := newSite(t, backend+" x3", ttl+3*time.Second, how, testbed.Addrs(nodes)...)
	return site.with(ensembleFaults(nodes))
}

// consulEnsemble gives each member its own agent, as is usual. Here the agents are servers.
func consulEnsemble(t testing.TB) *Site {
	nodes := testbed.StartConsulCluster(t, 3)
	site := newSite(t, "consul x3", ttl+6*time.Second, consulEnviron(), testbed.Addrs(nodes)...)
	for i, proxies := range site.proxies {
		site.proxies[i] = proxies[i : i+1]
	}
	return site.with(ensembleFaults(nodes))
}
