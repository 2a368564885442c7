package curator

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
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
			admin := dial(t, o.Servers)
			list := func(path string) []string {
				nodes, _, err := admin.Children(path)
				if err != nil && err != zk.ErrNoNode {
					t.Fatal(err)
				}
				return nodes
			}
			if nodes := list(n.layout.recordParent); len(nodes) != 2 {
				t.Errorf("after a proof there are records of %q, want those of led and old", nodes)
			}
			if nodes := list(n.layout.lockPath("new")); len(nodes) != 0 {
				t.Errorf("after a proof there stand %q in the queue of new", nodes)
			}
			read := func(path string) {
				t.Helper()
				if _, err := admin.SetACL(path, zk.WorldACL(zk.PermRead), -1); err != nil {
					t.Fatal(err)
				}
			}
			read(n.layout.recordPath("old"))
			preflight(map[string]bool{"led": true, "new": true})
			if kind != Node { // where all nodes have one parent
				read(n.layout.lockPath("led"))
				preflight(map[string]bool{"new": true})
			}
			read(n.layout.recordParent)
			n.session.Watches.Forget(ensemble.Data, n.layout.recordPath("new"))
			preflight(map[string]bool{"led": kind == Node})
		})
	}
}

// Preflight reports a TTL for which no session is long enough.
func TestPreflightFindsATTLThatIsTooLong(t *testing.T) {
	t.Parallel()
	o := shared(t)
	n := newClient(t, "n", o)
	long := n.bid(backend.Lease{Election: "long"})
	long.TTL = 2 * o.MaxSession
	errs := n.Preflight(t.Context(), []backend.Bid{long, n.bid(backend.Lease{Election: "jobs"})})
	if backend.Class(errs[0]) != backend.ErrInvalid || errs[1] != nil {
		t.Errorf("a TTL of %v with sessions of up to %v, and a fair one: %v", long.TTL, o.MaxSession, errs)
	}
}
