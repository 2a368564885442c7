package testbed

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// startCluster starts n servers for this test, which make returns. All of them answer when it returns.
func startCluster[S server](t testing.TB, n int, make func(i int) S) (all []S) {
	t.Helper()
	Full(t, "starts a cluster")
	for i := range n {
		s, err := attempt(func() S {
			s := make(i)
			check(s.daemon().spawn())
			return s
		})
		if err != nil {
			unavailable(t, err)
		}
		s.daemon().endWithTest(t)
		all = append(all, s)
	}
	for _, s := range all {
		NoError(t, s.daemon().await())
	}
	t.Attr("server", fmt.Sprintf("%s, %d servers", all[0].daemon().title(), n))
	return all
}

// A Peer is a server of a cluster, which elects one of them. Each runs on a host of its own.
type Peer interface {
	comparable
	faultyServer
	Addr() string
	Host() *Host
	Terminate(t testing.TB)
	Running() bool
	Leads(t testing.TB) bool // as it says
}

// Leader waits until one of these servers leads their cluster, and returns it.
func Leader[P Peer](t testing.TB, servers []P, except ...P) (leader P) {
	t.Helper()
	Eventually(t, startLimit, "a leader of the cluster", func() error {
		i := slices.IndexFunc(servers, func(p P) bool { return !slices.Contains(except, p) && p.Running() && p.Leads(t) })
		if i < 0 {
			return errors.New("none says that it leads")
		}
		leader = servers[i]
		return nil
	})
	return leader
}

// LeaderFaults returns the faults of [ServerFaults] for the server that leads the cluster at that moment.
func LeaderFaults[P Peer](t testing.TB, servers []P) map[string]conformance.Fault {
	return faultsOf(t, func() faultyServer { return Leader(t, servers) })
}

// Addrs returns the addresses of servers.
func Addrs[P Peer](servers []P) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}
