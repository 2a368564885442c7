package curator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
	"github.com/go-zookeeper/zk"
)

// foreignName is a prefix of a node's name as Curator creates it.
const foreignName = "_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-"

// freeSnapshot reads a free election as a bid does, and returns the session too.
func (c *client) freeSnapshot(t testing.TB, name string) (id int64, snap snapshot) {
	t.Helper()
	id = c.session.id()
	snap, err := c.takeSnapshot(t.Context(), c.session, name, watchedRead())
	if err != nil || snap.lease.ObserveFor != 0 {
		t.Fatalf("want a free lease, got %+v, %v", snap.lease, err)
	}
	return id, snap
}

// queueForeign creates a node of another program in a queue.
func queueForeign(t testing.TB, admin *zk.Conn, l layout, election string) (path string) {
	t.Helper()
	path, err := admin.Create(l.lockPath(election)+"/"+foreignName+l.base, []byte("java"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The node of another program that is created between a read and a grant is first, and that
// program leads. The grant is taken back before anyone is told, and our node waits behind
// it. The same holds if the queue was deleted meanwhile and created again with as many
// nodes as before.
func TestAGrantBehindAnotherProgramIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, admin *zk.Conn, queue string){
		"in the same queue": func(*testing.T, *zk.Conn, string) {},
		"in a queue that was made anew": func(t *testing.T, admin *zk.Conn, queue string) {
			if err := admin.Delete(queue, -1); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Create(queue, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectGrantTakenBack(t, before)
		})
	}
}

func expectGrantTakenBack(t *testing.T, before func(t *testing.T, admin *zk.Conn, queue string)) {
	o := longSessions(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	id, snap := a.freeSnapshot(t, "jobs")
	before(t, admin, a.layout.lockPath("jobs"))
	java := queueForeign(t, admin, a.layout, "jobs")
	if l, done, err := a.grant(t.Context(), a.session, id, a.bid(snap.lease), &snap); err != nil || done {
		t.Fatalf("a grant with another program's node before ours: want it taken back, got %+v, %v, %v", l, done, err)
	}
	seen := a.observeOne(t, "jobs")
	if seen.Holder.ID != "java" || seen.ObserveFor != backend.ExpiresInStore || seen.Term <= held.Term {
		t.Fatalf("want the other program shown as leader, above term %d; got %+v", held.Term, seen)
	}
	if got, err := a.try(seen); err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("a bid behind it: want refused, got %+v, %v", got, err)
	}
	if nodes, _, err := admin.Children(a.layout.lockPath("jobs")); err != nil || len(nodes) != 2 {
		t.Fatalf("want one node of a's behind the other program's, got %q, %v", nodes, err)
	}
	if err := admin.Delete(java, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := a.try(a.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Granted || got.Term <= seen.Term {
		t.Fatalf("a bid when it has gone: want granted above term %d, got %+v, %v", seen.Term, got, err)
	}
}

// Members of other programs join through another server of an ensemble at the moment of a
// grant, some of them in a queue that was just created again. No reported grant comes
// behind one of them.
func TestNoGrantStandsBehindAConcurrentProgram(t *testing.T) {
	t.Parallel()
	reserve(t, 3)
	addrs := testbed.ZooKeeperAddrs(testbed.StartZooKeeperEnsemble(t, testbed.NewNetwork(t, 3), 3))
	o := longSessions(Options{Servers: addrs[:1], Root: "/moment", Tick: tick})
	var first, second atomic.Int32 // how often our node came first, and theirs
	t.Run("rounds", func(t *testing.T) {
		for i := range 6 {
			t.Run(fmt.Sprint("jobs-", i), func(t *testing.T) {
				t.Parallel()
				a, admin := newClient(t, "a", o), dial(t, addrs[1+i%2:2+i%2])
				a.winLongSession(t, fmt.Sprint("jobs-", i))
				for round := range 60 {
					if a.bidBesideForeign(t, admin, fmt.Sprint("jobs-", i), round%2 == 1) {
						first.Add(1)
					} else {
						second.Add(1)
					}
				}
			})
		}
	})
	t.Logf("ours came first %d times, they %d times", first.Load(), second.Load())
	if first.Load() == 0 || second.Load() == 0 {
		t.Error("want each to come first sometimes")
	}
}

// bidBesideForeign releases an election and bids for it while a member of another program
// joins; anew deletes the queue and creates it again first, if possible. It reports whether
// the bid was granted.
func (a *client) bidBesideForeign(t *testing.T, admin *zk.Conn, name string, anew bool) (granted bool) {
	if err := a.release(backend.Lease{Election: name, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Sync("/"); err != nil {
		t.Fatal(err)
	}
	seen, queue, theirs := a.observeOne(t, name), a.layout.lockPath(name), make(chan string, 1)
	go func() {
		time.Sleep(rand.N(4 * time.Millisecond)) // at any moment
		if anew && admin.Delete(queue, -1) == nil {
			admin.Create(queue, nil, 0, zk.WorldACL(zk.PermAll))
		}
		node, _ := admin.Create(queue+"/"+foreignName+a.layout.base, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		theirs <- node
	}()
	got, err := a.try(seen)
	node := <-theirs
	if err != nil || node == "" {
		t.Fatalf("a bid, or the other member's create, has failed: %v, %q", err, node)
	}
	granted = got.Outcome == backend.Granted
	if granted && !a.layout.before(nodeOf(got.Lease), path.Base(node)) {
		t.Errorf("a grant stands behind another program's node: %s behind %s", nodeOf(got.Lease), path.Base(node))
	}
	if err := admin.Delete(node, -1); err != nil {
		t.Fatal(err)
	}
	return granted
}

// A dead and a live candidate wait behind another program. When that program goes, the live
// one does not wait for the dead one.
func TestTheNodeOfADeadCandidateIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	dead, b, admin := newClient(t, "dead", o), newClient(t, "b", o), dial(t, o.Servers)
	held := dead.winLongSession(t, "jobs")
	java := queueForeign(t, admin, b.layout, "jobs")
	if err := dead.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{dead, b} {
		if got, err := c.try(c.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
			t.Fatalf("a bid behind another program: want refused, to wait for it; got %+v, %v", got, err)
		}
	}
	dead.kill()
	if err := admin.Delete(java, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := b.try(b.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Granted {
		t.Fatalf("b's bid: want granted, got %+v, %v", got, err)
	}
	if !dead.sessionAlive(t, admin) {
		t.Error("the ensemble had ended the dead candidate's session before the grant")
	}
}

// A Java member waits behind a Go leader that dies, while a Go member observes that leader.
// The end of the observation lets the Java member lead, because it is next.
func TestALeaderLatchLeadsAfterATakeover(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	path := o.Root + "/app/latch"
	o.Paths = map[string]string{"jobs": path}
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	java := startLatch(t, o.Servers[0], path, "java-1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // until the Java member has started, which takes a while
		for {
			select {
			case <-stop:
				return
			case <-time.After(ttl / 3):
				a.renew(held)
			}
		}
	})
	java.Who(t, 2)
	close(stop)
	wg.Wait()
	a.keep(t, held)
	a.kill()
	got, err := b.try(b.watchLease(t, "jobs"))
	if err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore || got.Holder.ID != "java-1" {
		t.Fatalf("b's bid: want refused in favour of java-1, got %+v, %v", got, err)
	}
	java.Says(t, "leader")
	if !a.sessionAlive(t, admin) {
		t.Error("the ensemble had ended the session before java-1 led")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := b.observeOne(t, "jobs")
	listened := make(chan error, 1)
	go func() { listened <- b.Listen(ctx, []backend.Lease{seen}) }()
	java.Resign()
	java.Says(t, "not leader")
	if err := <-listened; err != nil {
		t.Fatalf("b's Listen after java-1 has gone: %v", err)
	}
	if l := b.win(t, "jobs"); l.Term <= held.Term {
		t.Errorf("want b to lead above term %d, got %+v", held.Term, l)
	}
}

// What other programs rely on: the names and data of nodes, that a queue contains nothing
// but such nodes, and that no member ever writes one, because Curator's members watch them
// with one-shot watches.
func TestLockNodesAreCuratorsAndNeverWritten(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector} {
		o := shared(t)
		o.Layout = layout
		o.Paths = map[string]string{"jobs": o.Root + "/app/lock"}
		a, b := newClient(t, "节点-1", o), newClient(t, "b", o)
		held := a.win(t, "jobs")
		admin := dial(t, o.Servers)
		foreign, err := admin.Create(o.Root+"/app/lock/_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-"+a.layout.base, []byte("java-1"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			a.keep(t, held)
		}
		if err := b.Request(t.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"}}); err != nil {
			t.Fatal(err)
		}
		a.keep(t, held)
		if _, err := b.try(backend.Lease{Election: "jobs"}); err != nil {
			t.Fatal(err)
		}
		nodes, _, err := admin.Children(o.Root + "/app/lock")
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%s: want two nodes, got %q, %v", layout, nodes, err)
		}
		base := map[Layout]string{Latch: "-latch-", Selector: "-lock-"}[layout]
		for _, n := range nodes {
			if len(n) != 3+36+len(base)+10 || n[:3] != "_c_" || n[39:39+len(base)] != base || strings.Count(n[3:39], "-") != 4 {
				t.Errorf("%s: %q is not named as Curator names nodes", layout, n)
			}
			data, stat, err := admin.Get(o.Root + "/app/lock/" + n)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: a.me.ID, false: "java-1"}[n == nodeOf(held)]; string(data) != want {
				t.Errorf("%s: node %q holds %q, want the id %q", layout, n, data, want)
			}
			if stat.Version != 0 {
				t.Errorf("%s: node %q was written %d times", layout, n, stat.Version)
			}
			if ours := a.layout.isOurs(n); ours != (n == nodeOf(held)) || ours == strings.HasSuffix(foreign, n) {
				t.Errorf("%s: is %q ours? got %v", layout, n, ours)
			}
		}
	}
}

// The leader of another program is shown, waited for, and succeeded.
func TestAForeignLeaderIsShownAndWaitedFor(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.Paths = map[string]string{"jobs": o.Root + "/app/latch"}
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	java := dial(t, o.Servers)
	path, err := java.Create(o.Root+"/app/latch/_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-latch-", []byte("java-1"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	again, err := java.Create(o.Root+"/app/latch/_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-latch-", []byte("java-1"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	seen := a.observeOne(t, "jobs")
	if seen.Holder.ID != "java-1" || !strings.HasPrefix(string(seen.Holder.Nonce), "node ") || seen.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("want java-1 shown as leader, to be waited for; got %+v", seen)
	}
	if got, err := a.try(seen); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("a bid behind a foreign leader: %+v, %v", got, err)
	}
	listened := make(chan error, 1)
	go func() { listened <- a.Listen(t.Context(), []backend.Lease{a.observeOne(t, "jobs")}) }()
	if err := java.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	if err := <-listened; err != nil {
		t.Fatalf("listen: %v", err)
	}
	now := a.observeOne(t, "jobs")
	if now.Holder.ID != "java-1" || now.Holder == seen.Holder {
		t.Fatalf("want another holder with the same id, got %+v", now)
	}
	if err := java.Delete(again, -1); err != nil {
		t.Fatal(err)
	}
	now = a.observeOne(t, "jobs")
	if got, err := a.try(now); err != nil || got.Outcome != backend.Granted || got.Term <= held.Term {
		t.Fatalf("a bid after the foreign leader has gone: want granted above term %d, got %+v, %v", held.Term, got, err)
	}
}
