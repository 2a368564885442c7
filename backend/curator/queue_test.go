package curator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/lab/testbed"
)

// A line is one queue, with members of this module and other programs.
type line struct {
	*testing.T
	Options
	programs *programs
}

func newLine(t *testing.T) *line {
	o := shared(t)
	l := openLock(t, o).layout
	return &line{t, o, &programs{layout: l, servers: o.ZooKeeper.Servers, clients: map[string]*zk.Conn{}}}
}

func (l *line) runs(program string) bool { return l.programs.run(l, "jobs", program) }

func (l *line) queue() []string {
	l.Helper()
	nodes, _, err := testbed.DialZooKeeper(l, l.ZooKeeper.Servers).Children(l.programs.layout.lockPath("jobs"))
	testbed.NoError(l, err)
	slices.SortFunc(nodes, l.programs.layout.compare)
	return nodes
}

// A member that bids while another program leads has its turn before those that come later. Its place alone
// does not lead: another member may have the lease.
func TestAMemberHasItsTurnBetweenOtherPrograms(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	a, b := newClient(t, "a", l.Options), newClient(t, "b", l.Options)
	l.runs("first")
	for _, c := range []*client{a, b} {
		if got := c.Bids(c.Sees("jobs")); got.Outcome != backend.Refused || got.Holder.ID != "first" {
			t.Fatalf("a bid behind another program: %v, %+v", got.Outcome, got.Lease)
		}
	}
	if l.runs("second") {
		t.Fatal("second leads beside first")
	}
	l.programs.end(t, "first")
	if l.runs("second") {
		t.Fatal("second is served before a and b, which came earlier")
	}
	b.TakesOver("jobs")
	if seen := a.Sees("jobs"); seen.Holder != b.Me {
		t.Errorf("a, whose node comes first, sees %+v; want b to lead", seen)
	}
}

// A place in the queue is withdrawn soon after the last bid: it would hold up other programs.
func TestAPlaceOfWhoGaveUpHoldsUpNobody(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	k := openLock(t, l.Options)
	l.runs("first")
	testbed.NoError(t, k.Wait(t.Context(), []beside.Owned{{Election: "jobs", ID: "a"}}))
	l.runs("second")
	l.programs.end(t, "first")
	if l.runs("second") {
		t.Fatal("second is served before a, which came earlier")
	}
	testbed.Eventually(t, 2*l.Session, "second leads although a goes on reading", func() error {
		if _, err := k.Read(t.Context(), []string{"jobs"}); err != nil {
			return err
		}
		if !l.runs("second") {
			return errNone
		}
		return nil
	})
}

// When a member has died, another one removes its node once its lease has expired: those who wait need not wait
// for the end of its session.
func TestTheNodeOfADeadLeaderIsRemovedForOtherPrograms(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	a, b := newClient(t, "a", l.Options), newClient(t, "b", l.Options)
	a.TakesOver("jobs")
	if l.runs("other") {
		t.Fatal("another program leads beside a")
	}
	a.kill()
	began := time.Now()
	seen := b.Sees("jobs")
	if seen.Holder != a.Me {
		t.Fatalf("b sees %+v, want a", seen)
	}
	<-time.After(seen.ObserveFor)
	if got := b.Bids(b.Sees("jobs")); got.Outcome != backend.Refused {
		t.Fatalf("b, which came after the other program: %v, %+v", got.Outcome, got.Lease)
	}
	if !l.runs("other") {
		t.Error("the other program does not lead")
	}
	if took := time.Since(began); took > wideSession {
		t.Errorf("a's session has ended by itself: %v", took)
	}
}

// When a member has died, its guard gives back its node and its lease.
func TestAGuardGivesBackTheLockNode(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector, Node} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			l.Layout = layout
			l.programs.layout = openLock(t, l.Options).layout
			a := newClient(t, "a", l.Options)
			dead := a.TakesOver("jobs").Held()
			dead.Holder = backend.Candidate{Nonce: dead.Holder.Nonce} // a guard knows no more
			a.kill()
			l.runs("other")

			guard := newClient(t, "guard", l.Options)
			testbed.NoError(t, guard.Adopt(dead.Holder.Nonce, []backend.Held{dead}))
			testbed.NoError(t, guard.Release(t.Context(), []backend.Held{dead}))
			if !l.runs("other") {
				t.Error("the lock node of the dead is still there")
			}
			l.programs.end(t, "other")
			newClient(t, "b", l.Options).TakesOver("jobs")
		})
	}
}

// An operator deletes the leader's node, or edits it. Its next renewal is refused although its session lives.
func TestADeletedNodeEndsTheLeadership(t *testing.T) {
	t.Parallel()
	for what, layout := range map[string]Layout{"deleted": Latch, "replaced": Node, "edited": Node} {
		l := newLine(t)
		l.Layout = layout
		a := newClient(t, "a", l.Options)
		held, other := a.TakesOver("jobs"), a.TakesOver("other")
		node := ""
		if layout != Node {
			node = l.queue()[0]
		}
		path, admin := a.lock.layout.nodePath("jobs", node), testbed.DialZooKeeper(t, l.ZooKeeper.Servers)
		if what == "edited" {
			if _, err := admin.Set(path, []byte("b"), -1); err != nil {
				t.Fatal(err)
			}
		} else if err := admin.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
		if what == "replaced" { // by one with the same data
			if _, err := admin.Create(path, []byte("a"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		answers := a.RenewsAll(held, other)
		if answers[0].Outcome != backend.Refused || answers[1].Outcome != backend.Granted {
			t.Errorf("%s: want the one whose node was changed refused and the other granted, got %+v", what, answers)
		}
		a.Resigns(held)
		if there, _, err := admin.Exists(path); err != nil || there != (what == "replaced") {
			t.Errorf("%s: after a's release the node is there: %v, %v; want only another's to be left", what, there, err)
		}
	}
}

// A place is made and the answer is lost. The next bid uses it, and makes no other.
func TestANodeWhoseAnswerWasLostIsNoOrphan(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	proxy := testbed.NewProxy(t, l.ZooKeeper.Servers[0])
	o := l.Options
	o.ZooKeeper.Servers = []string{proxy.Addr()}
	k, bid := openLock(t, o), []beside.Owned{{Election: "jobs", ID: "a"}}
	l.runs("first")
	if _, err := k.view(t.Context(), "jobs"); err != nil { // so that the next request makes the place
		t.Fatal(err)
	}

	proxy.CutReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
	defer cancel()
	if err := k.Wait(ctx, bid); err == nil {
		t.Fatal("a place is made without an answer")
	}
	proxy.CutReplies(false)
	testbed.Eventually(t, patience, "the next bid has a place", func() error { return k.Wait(t.Context(), bid) })
	if nodes := l.queue(); len(nodes) != 2 {
		t.Errorf("want one place behind first, got %q", nodes)
	}
}

// What other programs rely on: the names and data of nodes, and that no node in a queue is ever written, because
// Curator's members watch them with one-shot watches.
func TestQueuedNodesAreCuratorsAndNeverWritten(t *testing.T) {
	t.Parallel()
	for layout, base := range map[Layout]string{Latch: "-latch-", Selector: "-lock-"} {
		l := newLine(t)
		l.Layout = layout
		l.programs.layout = openLock(t, l.Options).layout
		a, admin := newClient(t, "节点-1", l.Options), testbed.DialZooKeeper(t, l.ZooKeeper.Servers)
		held := a.TakesOver("jobs")
		for range 5 {
			a.Keeps(held)
		}
		for _, n := range l.queue() {
			if len(n) != 3+36+len(base)+10 || n[:3] != "_c_" || n[39:39+len(base)] != base || strings.Count(n[3:39], "-") != 4 {
				t.Errorf("%s: %q is not named as Curator names nodes", layout, n)
			}
			data, stat, err := admin.Get(l.programs.layout.lockPath("jobs") + "/" + n)
			if err != nil || string(data) != a.Me.ID || stat.Version != 0 {
				t.Errorf("%s: node %q holds %q and was written %d times, %v", layout, n, data, stat.Version, err)
			}
		}
	}
}
