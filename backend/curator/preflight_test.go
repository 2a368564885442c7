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
			a, admin := newClient(t, "a", o), testbed.DialZooKeeper(t, o.ZooKeeper.Servers)
			a.TakesOver("led")
			a.Resigns(a.TakesOver("old"))
			check := func(denied map[string]bool) {
				t.Helper()
				var bids []backend.Bid
				for _, name := range []string{"led", "new", "old"} {
					bids = append(bids, a.BidOver(backend.Lease{Election: name}))
				}
				for i, err := range a.Preflight(t.Context(), bids) {
					want := denied[bids[i].Election]
					if (backend.Class(err) == backend.ErrDenied) != want || !want && err != nil {
						t.Errorf("a proof for %s: %v", bids[i].Election, err)
					}
				}
			}
			check(nil)
			if nodes, _, _ := admin.Children(a.lock.layout.lockPath("new")); len(nodes) != 0 {
				t.Errorf("after a proof there stand %q in the queue of new", nodes)
			}

			forbid := func(path string) {
				t.Helper()
				if _, err := admin.SetACL(path, zk.WorldACL(zk.PermRead), -1); err != nil {
					t.Fatal(err)
				}
			}
			forbid(a.lock.layout.heldPath("old"))
			check(map[string]bool{"old": true})
			if kind != Node { // where all nodes have one parent
				forbid(a.lock.layout.lockPath("led"))
				check(map[string]bool{"led": true, "old": true})
			}
		})
	}
}
