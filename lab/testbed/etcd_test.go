package testbed

import (
	"fmt"
	"testing"
)

// When the leader of three nodes is frozen, another node takes over.
func TestEtcdReplacesALeaderThatIsFrozen(t *testing.T) {
	t.Parallel()
	nodes := StartEtcdCluster(t, NewNetwork(t, 3), 3, EtcdOptions{})
	first := Leader(t, nodes)
	changes := func() float64 { return first.Metrics(t)["etcd_server_leader_changes_seen_total"] }
	before := changes()
	first.Stop(t)
	Leader(t, nodes, first)
	first.Continue(t)
	Eventually(t, patience, "the first one has stepped down", func() error {
		if first.Leads(t) && changes() == before { // it may be elected again
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
