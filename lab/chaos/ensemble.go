//go:build linux

package chaos

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A node is one of three servers that elect a leader among themselves, each on its own
// host.
type node struct {
	*testbed.Daemon
	host  *testbed.Host
	leads func(t testing.TB) bool
}

// ensembleFaults are faults of the servers of an ensemble.
func ensembleFaults(nodes []node) map[string]fault {
	// head returns the index of the server that leads the ensemble.
	head := func(r *run) (i int) {
		testbed.Eventually(r, 3*time.Minute, "one of the servers leads", func() error {
			for i = range nodes {
				if nodes[i].Running() && nodes[i].leads(r) {
					return nil
				}
			}
			return errNoLeader
		})
		return i
	}
	return map[string]fault{
		"servers' leader killed": func(r *run) {
			n := nodes[head(r)]
			r.inject("servers' leader killed", n.Addr(), byRenewal, func() {
				n.Kill(r)
				r.wait(r.TTL, 2*r.TTL)
				n.Start(r)
			})
		},
		"servers' leader stopped": func(r *run) {
			n := nodes[head(r)]
			r.inject("servers' leader stopped", n.Addr(), byRenewal, func() {
				n.Stop(r)
				r.wait(r.TTL, 3*r.TTL)
				n.Continue(r)
			})
		},
		"servers' leader cut off": func(r *run) {
			n := nodes[head(r)]
			r.inject("servers' leader cut off", n.Addr(), byRenewal, func() {
				n.host.Cut(r, true)
				r.wait(r.TTL, 3*r.TTL)
				n.host.Cut(r, false)
			})
		},
		"quorum lost": func(r *run) {
			lead := head(r)
			r.inject("quorum lost", nodes[lead].Addr(), byCall, func() {
				for i := range 2 {
					nodes[(lead+i)%len(nodes)].Stop(r)
				}
				r.wait(r.TTL/2, 3*r.TTL)
				for i := range 2 {
					nodes[(lead+i)%len(nodes)].Continue(r)
				}
			})
		},
		"servers restarted in turn": func(r *run) {
			first := r.IntN(len(nodes))
			for i := range nodes {
				n := nodes[(first+i)%len(nodes)]
				r.inject("servers restarted in turn", n.Addr(), byRenewal, func() {
					n.Terminate(r)
					n.Start(r)
				})
			}
		},
	}
}

var errNoLeader = errors.New("no server says that it leads")

// ensemble completes the site of three servers.
func ensemble(t testing.TB, site *Site, nodes []node, environ func(proxies []*testbed.Proxy) []string) *Site {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	site.TTL, site.takesOver = ttl, true
	site.proxies = proxiesFor(t, addrs...)
	site.environ = func(i int) []string { return environ(site.proxies[i]) }
	site.faults = join(processFaults(), networkFaults(), ensembleFaults(nodes))
	return site
}

func etcdEnsemble(t testing.TB) *Site {
	network := testbed.NewNetwork(t, 3)
	var nodes []node
	for i, n := range testbed.StartEtcdCluster(t, network, 3, testbed.EtcdOptions{}) {
		nodes = append(nodes, node{n.Daemon, network.Host(i), n.Leads})
	}
	prefix := rand.Text() + "/"
	return ensemble(t, &Site{Backend: "etcd x3", Bound: bound(3 * time.Second)}, nodes, func(proxies []*testbed.Proxy) []string {
		return environ("etcd", "ENDPOINTS", urls(proxies, "http://"), "PREFIX", prefix)
	})
}

func zooKeeperEnsemble(t testing.TB, backend string, environ func(proxies []*testbed.Proxy, root string) []string) *Site {
	network := testbed.NewNetwork(t, 3)
	var nodes []node
	for i, z := range testbed.StartZooKeeperEnsemble(t, network, 3) {
		nodes = append(nodes, node{z.Daemon, network.Host(i), z.Leads})
	}
	root := "/" + rand.Text()
	return ensemble(t, &Site{Backend: backend + " x3", Bound: bound(ttl + 3*time.Second)}, nodes, func(proxies []*testbed.Proxy) []string {
		return environ(proxies, root)
	})
}

// consulEnsemble gives each member its own agent, as is usual. Here the agents are servers.
func consulEnsemble(t testing.TB) *Site {
	network := testbed.NewNetwork(t, 3)
	var nodes []node
	for i, a := range testbed.StartConsulCluster(t, network, 3) {
		nodes = append(nodes, node{a.Daemon, network.Host(i), a.Leads})
	}
	prefix := rand.Text()
	site := ensemble(t, &Site{Backend: "consul x3", Bound: bound(ttl + 6*time.Second)}, nodes, nil)
	all := site.proxies
	site.proxies = nil
	for i := range all {
		site.proxies = append(site.proxies, all[i][i:i+1])
	}
	site.environ = func(i int) []string {
		return environ("consul", "ADDRESS", urls(site.proxies[i], "http://"), "PREFIX", prefix)
	}
	return site
}
