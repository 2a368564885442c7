package testbed

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// startCluster starts n servers for this test, each on a host of its own. make prepares the one of host i.
// All of them answer when startCluster returns.
func startCluster(t testing.TB, n int, make func(hosts []*Host, i int) *Daemon) (all []*Daemon) {
	t.Helper()
	hosts := newHosts(t, n)
	for i := range n {
		d, err := attempt(func() *Daemon {
			d := make(hosts, i)
			d.host = hosts[i]
			check(d.spawn())
			return d
		})
		if err != nil {
			unavailable(t, err)
		}
		d.endWithTest(t)
		all = append(all, d)
	}
	for _, d := range all {
		NoError(t, d.await())
	}
	return all
}

// Leader waits until one of these servers leads their cluster, and returns it.
func Leader(t testing.TB, servers []*Daemon, except ...*Daemon) (leader *Daemon) {
	t.Helper()
	Eventually(t, startLimit, "a leader of the cluster", func() error {
		i := slices.IndexFunc(servers, func(d *Daemon) bool {
			return !slices.Contains(except, d) && d.Running() && d.Leads(t)
		})
		if i < 0 {
			return errors.New("none says that it leads")
		}
		leader = servers[i]
		return nil
	})
	return leader
}

// LeaderFaults returns the faults of [ServerFaults] for the server that leads the cluster at that moment.
func LeaderFaults(t testing.TB, servers []*Daemon) map[string]conformance.Fault {
	return faultsOf(t, func() *Daemon { return Leader(t, servers) })
}

// Addrs returns the addresses of servers.
func Addrs(servers []*Daemon) (addrs []string) {
	for _, d := range servers {
		addrs = append(addrs, d.addr)
	}
	return addrs
}
