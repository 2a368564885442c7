package curator

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

const canary = "hunter2-canary"

// Nodes belong to the user alone. Losing the rights to the lock of one election affects that election only.
// If they are given back, it is led again.
func TestRightsRevokedAtOneLockLeaveTheOthers(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			o := shared(t)
			o.Layout, o.ZooKeeper.User, o.ZooKeeper.Password = layout, "app", canary
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			jobs, mail := a.TakesOver("jobs"), a.TakesOver("mail")
			path := a.lock.layout.lockPath("jobs")
			admin := testbed.DialZooKeeper(t, o.ZooKeeper.Servers)
			testbed.NoError(t, admin.AddAuth("digest", []byte("app:"+canary)))
			for _, at := range []string{path, a.lock.layout.heldPath("jobs"), a.markPath(jobs)} {
				acl, _, err := admin.GetACL(at)
				if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "app:") {
					t.Errorf("%s is not the user's alone: %v, %v", at, acl, err)
				}
			}
			allow := func(perms int32) {
				t.Helper()
				if _, err := admin.SetACL(path, zk.DigestACL(perms|zk.PermAdmin, "app", canary), -1); err != nil {
					t.Fatal(err)
				}
			}

			allow(0)
			answers := a.RenewsAll(jobs, mail)
			if answers[1].Outcome != backend.Granted {
				t.Fatalf("mail, whose nodes are unchanged: want it renewed, got %+v", answers)
			}
			// Checking a node in a queue needs no right to the queue.
			if told := answers[0]; layout == Node && (told.Outcome != backend.Unknown || backend.Class(told.Err) != backend.ErrDenied) {
				t.Errorf("a renewal of jobs: want no outcome and ErrDenied, got %+v", told)
			}
			changed, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}, {Election: "mail"}})
			if err != nil || len(changed) != 2 || changed[1].Holder != a.Me {
				t.Fatalf("want b to read both elections, got %+v, %v", changed, err)
			}
			if got := b.Bids(changed[0]); backend.Class(got.Err) != backend.ErrDenied {
				t.Errorf("a bid for jobs: want ErrDenied, got %+v", got)
			}

			allow(zk.PermAll)
			a.Keeps(jobs)
			a.Keeps(mail)
		})
	}
}

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
