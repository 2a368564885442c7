package testbed

import (
	"errors"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// ZooKeeperAddrs returns the addresses of servers.
func ZooKeeperAddrs(servers []*ZooKeeperServer) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// ZooKeeperLeader waits until an ensemble has a leader.
func ZooKeeperLeader(t testing.TB, servers []*ZooKeeperServer) (leader *ZooKeeperServer) {
	t.Helper()
	Eventually(t, startLimit, "a leader of the ensemble", func() error {
		for _, s := range servers {
			if s.Running() && s.Leads(t) {
				leader = s
				return nil
			}
		}
		return errors.New("none")
	})
	return leader
}

// ZooKeeperLeaderFaults returns the faults of [ServerFaults] for the server that leads the ensemble at
// that moment.
func ZooKeeperLeaderFaults(t testing.TB, servers []*ZooKeeperServer) map[string]conformance.Fault {
	var stopped *ZooKeeperServer
	return map[string]conformance.Fault{
		conformance.FaultRestart: func(bool, string) error {
			l := ZooKeeperLeader(t, servers)
			l.Kill(t)
			l.Start(t)
			return nil
		},
		conformance.FaultPause: func(on bool, _ string) error {
			if on {
				stopped = ZooKeeperLeader(t, servers)
				stopped.Stop(t)
			} else {
				stopped.Continue(t)
			}
			return nil
		},
	}
}
