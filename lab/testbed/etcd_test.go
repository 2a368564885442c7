//go:build linux

package testbed

import (
	"fmt"
	"testing"
)

// When the leader of three nodes is frozen, another node takes over.
func TestEtcdReplacesALeaderThatIsFrozen(t *testing.T) {
	t.Parallel()
	nodes := StartEtcdCluster(t, NewNetwork(t, 3), 3, EtcdOptions{})
	var first *EtcdNode
	Eventually(t, patience, "one of three nodes leads", func() error {
		for _, n := range nodes {
			if n.IsLeader(t) {
				first = n
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
	changes := func() float64 { return first.Metrics(t)["etcd_server_leader_changes_seen_total"] }
	before := changes()
	first.Stop(t)
	Eventually(t, patience, "another node leads", func() error {
		for _, n := range nodes {
			if n != first && n.IsLeader(t) {
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
	first.Continue(t)
	Eventually(t, patience, "the first one has stepped down", func() error {
		if first.IsLeader(t) && changes() == before { // it may be elected again
			return fmt.Errorf("it leads")
		}
		return nil
	})
}

// A node with TLS starts, and hands out client certificates.
func TestEtcdSpeaksTLS(t *testing.T) {
	t.Parallel()
	n := StartEtcd(t, EtcdOptions{TLS: true})
	cert, key := n.ClientFiles(t, "app")
	if n.CAFile() == "" || cert == "" || key == "" || n.TLSConfig() == nil {
		t.Errorf("files %q %q %q", n.CAFile(), cert, key)
	}
}
