package curator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// mark marks a lease, and fails the test if that is not granted.
func (c *client) mark(t testing.TB, held backend.Lease, to string) backend.Lease {
	t.Helper()
	held.MovedTo = to
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answers, err := c.Mark(ctx, []backend.Held{held.Held()})
	if err != nil || answers[0].Outcome != backend.Granted || answers[0].MovedTo != to {
		t.Fatalf("a move to %q: want granted, got %+v, %v", to, answers, err)
	}
	return answers[0].Lease
}

func (c *client) free(t testing.TB, held backend.Lease) {
	t.Helper()
	if err := c.release(backend.Lease{Election: held.Election, Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
}

// A seal is a persistent child that comes first and says where the election has moved. No
// one in the queue leads, and the holder's node may come behind them. Breaking the seal
// sends those that waited before the holder to the end.
func TestASealInAQueueKeepsOthersOut(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector} {
		o := shared(t)
		o.Layout = layout
		a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
		a.free(t, a.mark(t, a.win(t, "jobs"), "mysql"))
		lock := a.layout.lockPath("jobs")
		text, stat, err := admin.Get(lock + "/+moved")
		if err != nil || string(text) != "moved to mysql" || stat.EphemeralOwner != 0 {
			t.Fatalf("%s: want a persistent seal, got %q, %+v, %v", layout, text, stat, err)
		}
		java := queueForeign(t, admin, a.layout, "jobs")
		if nodes, _, err := admin.Children(lock); err != nil || a.layout.first(nodes) != "+moved" {
			t.Fatalf("%s: want the seal first, got %q, %v", layout, nodes, err)
		}
		seen := b.observeOne(t, "jobs")
		if !seen.Vacant() || seen.MovedTo != "mysql" || seen.ObserveFor != 0 {
			t.Fatalf("%s: want a sealed vacant election, got %+v", layout, seen)
		}
		held := b.win(t, "jobs") // by a bid that shows the seal
		if nodes, _, err := admin.Children(lock); err != nil || len(nodes) != 3 {
			t.Fatalf("%s: want the other program's node and b's behind the seal, got %q, %v", layout, nodes, err)
		}
		b.keep(t, held)
		held = b.mark(t, held, "")
		if nodes, _, err := admin.Children(lock); err != nil || !slices.Equal(nodes, []string{nodeOf(held)}) {
			t.Fatalf("%s: want b's node alone when the seal is broken, got %q, %v", layout, nodes, err)
		}
		b.keep(t, held)
		if there, _, err := admin.Exists(java); err != nil || there {
			t.Errorf("%s: another program's node before the leader's: %v, %v", layout, there, err)
		}
		if seen := a.observeOne(t, "jobs"); seen.Holder != b.me || seen.MovedTo != "" {
			t.Errorf("%s: want b to lead, got %+v", layout, seen)
		}
		b.mark(t, held, "etcd")
		deleteAll(t, admin, o.Root+"/record")
		if seen := a.observeOne(t, "jobs"); seen.MovedTo != "etcd" {
			t.Errorf("%s: the seal is there, and the record was deleted: want it shown, got %+v", layout, seen)
		}
	}
}

// At a fixed path the seal is a persistent node, so no other node can be created there. A
// lease under it has no node: a challenger observes the renewals in the session record.
func TestASealAtAFixedPathKeepsOthersOut(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	o.Layout = Node
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	lock := a.layout.lockPath("jobs")
	held := a.mark(t, a.win(t, "jobs"), "mysql")
	a.keep(t, held)
	sealed := func() {
		t.Helper()
		text, stat, err := admin.Get(lock)
		if err != nil || string(text) != "moved to mysql" || stat.EphemeralOwner != 0 {
			t.Fatalf("want a persistent seal, got %q, %+v, %v", text, stat, err)
		}
		if _, err := admin.Create(lock, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("another program makes its node where the seal is: %v", err)
		}
	}
	sealed()
	a.free(t, held)
	sealed()
	if held = a.winLongSession(t, "other"); held.Term == 0 {
		t.Fatal("no term")
	}
	held = a.win(t, "jobs")
	a.keep(t, held)
	sealed()

	// b observes it, and a renewal at the last moment undoes the takeover.
	seen := b.observeOne(t, "jobs")
	if seen.Holder != a.me || seen.ObserveFor != ttl {
		t.Fatalf("want a's lease to be watched, got %+v", seen)
	}
	b.winLongSession(t, "third")
	id := b.session.id()
	snap, err := b.takeSnapshot(t.Context(), b.session, "jobs", watchedRead())
	if err != nil {
		t.Fatal(err)
	}
	a.keep(t, held)
	if l, done, err := b.grant(t.Context(), b.session, id, b.bid(snap.lease), &snap); err != nil || done {
		t.Fatalf("a takeover from a holder that has renewed since: want no grant, got %+v, %v, %v", l, done, err)
	}
	if err := b.release(backend.Lease{Election: "jobs", End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	won, err := b.try(b.watchLease(t, "jobs"))
	if err != nil || won.Outcome != backend.Granted || won.MovedTo != "mysql" {
		t.Fatalf("a bid after an observation: want granted, got %+v, %v", won, err)
	}
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Fatalf("a renewal after a takeover: want refused, got %+v, %v", answers, err)
	}
	sealed()
	open := b.mark(t, won.Lease, "")
	if _, stat, err := admin.Get(lock); err != nil || stat.EphemeralOwner == 0 {
		t.Fatalf("when the seal is broken: want b's own node, got %+v, %v", stat, err)
	}
	b.keep(t, open)
	b.free(t, open)
	if there, _, err := admin.Exists(lock); err != nil || there {
		t.Fatalf("after a release there is a node: %v, %v", there, err)
	}
}

// A mark whose answer is lost is not granted, and a release leaves nothing but a seal,
// which the record then shows.
func TestALostAnswerToAMarkGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		for _, to := range []string{"mysql", ""} {
			o := shared(t)
			admin := dial(t, o.Servers)
			proxy := testbed.NewProxy(t, o.Servers[0])
			o.Layout, o.Servers = layout, []string{proxy.Addr()}
			a := newClient(t, "a", o)
			held := a.win(t, "jobs")
			if to == "" {
				held = a.mark(t, held, "mysql")
			}
			held.MovedTo = to
			proxy.CutReplies(true)
			ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
			answers, err := a.Mark(ctx, []backend.Held{held.Held()})
			cancel()
			if err == nil || len(answers) > 0 && answers[0].Outcome == backend.Granted {
				t.Fatalf("%s: a move whose answer is lost: want no outcome, got %+v, %v", layout, answers, err)
			}
			proxy.CutReplies(false)
			testbed.Eventually(t, patience, "a release", func() error {
				return a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released})
			})
			a.free(t, backend.Lease{Election: "jobs"})
			seen := a.observeOne(t, "jobs")
			if !seen.Vacant() || seen.ObserveFor != 0 {
				t.Errorf("%s: want it vacant, got %+v", layout, seen)
			}
			there, _, err := admin.Exists(a.layout.sealPath("jobs"))
			if err != nil || there != (seen.MovedTo != "") {
				t.Errorf("%s: there is a seal: %v, and the election is shown as %+v (%v)", layout, there, seen, err)
			}
			held = a.win(t, "jobs")
			held = a.mark(t, held, "there")
			a.mark(t, held, "")
		}
	}
}

// Curator's members wait behind a seal, and continue when it is broken.
func TestCuratorsMembersWaitBehindASeal(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			o := longSessions(shared(t))
			o.Layout = layout
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			a.free(t, a.mark(t, a.winLongSession(t, "jobs"), "mysql"))
			java := testbed.StartJavaMember(t, testbed.JavaOptions{Kind: string(layout), Server: o.Servers[0], Path: a.layout.lockPath("jobs"), ID: "java-1", Session: 15 * time.Second})
			shows := java.Who(t, 4) // words
			if want := "moved to mysql* java-1"; layout == Latch && shows != want {
				t.Errorf("Curator shows %q, want %q", shows, want)
			}
			t.Logf("Curator's participants behind a seal: %q", shows)
			bid := b.bid(b.observeOne(t, "jobs"))
			bid.Renew = 6 * ttl
			answers, err := b.Acquire(t.Context(), []backend.Bid{bid})
			if err != nil || answers[0].Outcome != backend.Granted {
				t.Fatalf("a bid behind a seal that shows it: want granted, got %+v, %v", answers, err)
			}
			held := b.mark(t, answers[0].Lease, "")
			b.keep(t, held)
			java.Who(t, 2) // it has queued again
			b.keep(t, held)
			if led := java.Led(); len(led) > 0 {
				t.Fatalf("java-1 has led beside b, or behind a seal: %v", led)
			}
			b.free(t, held)
			java.Says(t, "leader")
		})
	}
}
