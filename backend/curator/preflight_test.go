package curator

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// Preflight reports, for the elections concerned, that the user may not create or write one
// of the nodes of a grant. The attempt leaves no node.
func TestPreflightFindsMissingRights(t *testing.T) {
	t.Parallel()
	for _, kind := range []Layout{Latch, Selector, Node} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			o := shared(t)
			o.Layout = kind
			leader := newClient(t, "leader", o)
			leader.keep(t, leader.win(t, "led"))
			n := newClient(t, "n", o)
			preflight := func(want map[string]bool) {
				t.Helper()
				var bids []backend.Bid
				names := []string{"led", "new", "old"}
				for _, name := range names {
					bids = append(bids, n.bid(backend.Lease{Election: name}))
				}
				for i, err := range n.Preflight(t.Context(), bids) {
					if denied := backend.Class(err) == backend.ErrDenied; denied == want[names[i]] || want[names[i]] && err != nil {
						t.Errorf("a proof for %s: %v", names[i], err)
					}
				}
			}
			if err := leader.release(leader.win(t, "old")); err != nil {
				t.Fatal(err)
			}
			preflight(map[string]bool{"led": true, "new": true, "old": true})
			admin := testbed.DialZooKeeper(t, o.ZooKeeper.Servers)
			list := func(path string) []string {
				nodes, _, err := admin.Children(path)
				if err != nil && err != zk.ErrNoNode {
					t.Fatal(err)
				}
				return nodes
			}
			if nodes := list(n.lock.layout.lockPath("new")); len(nodes) != 0 {
				t.Errorf("after a proof there stand %q in the queue of new", nodes)
			}
			read := func(path string) {
				t.Helper()
				if _, err := admin.SetACL(path, zk.WorldACL(zk.PermRead), -1); err != nil {
					t.Fatal(err)
				}
			}
			read(n.lock.layout.heldPath("old"))
			preflight(map[string]bool{"led": true, "new": true})
			if kind != Node { // where all nodes have one parent
				read(n.lock.layout.lockPath("led"))
				preflight(map[string]bool{"new": true})
			}
		})
	}
}
