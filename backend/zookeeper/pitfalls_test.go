package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Hazards 4 and 5: an operator deletes the leader's node. The leader's next
// renewal is refused, though its session lives, and others must watch for a TTL all
// the same.
func TestALatchNodeThatIsDeletedByHandFreesNothingAtOnce(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held, other := a.win(t, "jobs"), a.win(t, "other")
	admin := dial(t, o.Servers)
	if err := admin.Delete(a.layout.node("jobs", held.Ref), -1); err != nil {
		t.Fatal(err)
	}
	seen := b.look(t, "jobs")
	if seen.Holder != a.me || seen.ObserveFor != ttl {
		t.Fatalf("b is to watch a's lease for %v, got %+v", ttl, seen)
	}
	if got, err := b.try(backend.Lease{Election: "jobs"}); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid without having watched: want refused, got %+v, %v", got, err)
	}
	answers, err := a.renew(held, other)
	if err != nil || answers[0].Outcome != backend.Refused || answers[1].Outcome != backend.Granted {
		t.Fatalf("a's renewals: want the one whose node was deleted refused and the other granted, got %+v, %v", answers, err)
	}
	now := b.look(t, "jobs")
	if !now.Unchanged(seen) {
		t.Fatalf("a's renewal of another election has changed what b watches: from %+v to %+v", seen, now)
	}
	if got, err := b.try(now); err != nil || got.Outcome != backend.Granted || got.Term <= held.Term {
		t.Fatalf("b's bid over what it has watched: want granted, got %+v, %v", got, err)
	}
	// What a does about its loss touches nothing of b's.
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if l := a.look(t, "jobs"); l.Holder != b.me {
		t.Fatalf("after a's release: want b to lead, got %+v", l)
	}
}

// Hazard 25: a deposition is a request beside the lease; the holder deletes its node
// by itself. (The suite has the rest.)
func TestADeposedHolderKeepsItsNodeUntilItReleases(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.win(t, "jobs")
	if err := b.Request(t.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Depose}}); err != nil {
		t.Fatal(err)
	}
	answers, err := a.renew(held)
	if err != nil || answers[0].Outcome != backend.Refused || answers[0].Request.Kind != backend.Depose {
		t.Fatalf("want refused, with the request; got %+v, %v", answers, err)
	}
	if there, _, err := dial(t, o.Servers).Exists(a.layout.node("jobs", held.Ref)); err != nil || !there {
		t.Fatalf("the deposed holder's node is gone before it has released (%v)", err)
	}
}

// Z3, hazards 13 and 14: the node is made and the answer is lost. A release of
// whatever is ours finds it, and without one the next bid does.
func TestANodeWhoseAnswerWasLostIsNoOrphan(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{true, false} {
		t.Run(fmt.Sprintf("released=%v", release), func(t *testing.T) {
			t.Parallel()
			o := shared(t)
			admin := dial(t, o.Servers)
			proxy := testbed.NewProxy(t, o.Servers[0])
			o.Servers = []string{proxy.Addr()}
			a := newClient(t, "a", o)
			first := a.win(t, "warm") // the session is there, and the lease keeps it
			queue := func() []string {
				nodes, _, err := admin.Children(a.layout.lock("jobs"))
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					t.Fatal(err)
				}
				return nodes
			}
			over := a.look(t, "jobs")
			proxy.CutReplies(true)
			ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
			answers, err := a.Acquire(ctx, []backend.Bid{a.bid(over)})
			cancel()
			if err == nil || len(answers) > 0 && answers[0].Outcome != backend.Unknown {
				t.Fatalf("a bid whose answer is lost: want no outcome, got %+v, %v", answers, err)
			}
			proxy.CutReplies(false)
			if release {
				testbed.Eventually(t, patience, "a release of whatever is ours", func() error {
					return a.release(backend.Lease{Election: "jobs", End: backend.Released})
				})
				if nodes := queue(); len(nodes) != 0 {
					t.Fatalf("after a release nothing of ours may stand in the queue, got %q", nodes)
				}
				return
			}
			held := a.win(t, "jobs")
			if nodes := queue(); !slices.Equal(nodes, []string{held.Ref}) {
				t.Fatalf("want the granted node %q alone in the queue, got %q", held.Ref, nodes)
			}
			_ = first
		})
	}
}

// What others rely on: the names and the data of nodes, that nothing but nodes of
// the queue is in it, and that nobody ever writes one: Curator's members watch
// them with watches that fire once.
func TestTheLatchIsCuratorsAndItsNodesAreNeverWritten(t *testing.T) {
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
			if want := map[bool]string{true: a.me.ID, false: "java-1"}[n == held.Ref]; string(data) != want {
				t.Errorf("%s: node %q holds %q, want the id %q", layout, n, data, want)
			}
			if stat.Version != 0 {
				t.Errorf("%s: node %q was written %d times", layout, n, stat.Version)
			}
			if ours := a.layout.ours(n); ours != (n == held.Ref) || ours == strings.HasSuffix(foreign, n) {
				t.Errorf("%s: is %q ours? got %v", layout, n, ours)
			}
		}
	}
}

// A member of another program leads: it is shown, waited for, and succeeded.
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
	seen := a.look(t, "jobs")
	if seen.Holder.ID != "java-1" || seen.Holder.Nonce != "" || seen.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("want java-1 shown as leader, to be waited for; got %+v", seen)
	}
	if got, err := a.try(seen); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("a bid behind a foreign leader: %+v, %v", got, err)
	}
	heard := make(chan error, 1)
	go func() { heard <- a.Listen(t.Context(), []backend.Lease{a.look(t, "jobs")}) }()
	if err := java.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Fatalf("listen: %v", err)
	}
	now := a.look(t, "jobs")
	if got, err := a.try(now); err != nil || got.Outcome != backend.Granted || got.Term <= held.Term {
		t.Fatalf("a bid after the foreign leader has gone: want granted above term %d, got %+v, %v", held.Term, got, err)
	}
}

// One node at a path and with data of the user's choice, as seed 004 and
// FireflySoft have it: judged by whose node it is, and not by what it says.
func TestANodeAtAPathOfTheUsersChoice(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.Layout, o.Data = Node, "address"
	o.Path, o.Last = o.Root+"x/services/{election}", o.Root+"x/last/{election}"
	const name = "AccountService:1.0.0"
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.win(t, name)
	admin := dial(t, o.Servers)
	lock := o.Root + "x/services/" + name
	data, stat, err := admin.Get(lock)
	if err != nil || string(data) != a.me.Address || stat.EphemeralOwner == 0 {
		t.Fatalf("want an ephemeral node with %q, got %q, %+v, %v", a.me.Address, data, stat, err)
	}
	if last, _, err := admin.Get(o.Root + "x/last/" + name); err != nil || string(last) != a.me.Address {
		t.Fatalf("want the last winner noted, got %q, %v", last, err)
	}
	if got, err := b.try(b.look(t, name)); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid: %+v, %v", got, err)
	}
	a.keep(t, held)
	// Somebody takes the node away and puts another in its place with a's own data.
	if err := admin.Delete(lock, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Create(lock, []byte(a.me.Address), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Fatalf("a's renewal with another's node in the place of its own: want refused, got %+v, %v", answers, err)
	}
	if err := a.release(backend.Lease{Election: name, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if there, _, err := admin.Exists(lock); err != nil || !there {
		t.Fatalf("a's release has deleted another's node (%v)", err)
	}
	if err := admin.Delete(lock, -1); err != nil {
		t.Fatal(err)
	}
	won := b.win(t, name)
	if err := b.release(backend.Lease{Election: name, Term: won.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	if there, _, _ := admin.Exists(lock); there {
		t.Fatal("b's node is there after its release")
	}
}

// A queue wakes each follower a few times, and none asks for more than a few
// things, however many there are (Z4).
func TestAFailOverCostsEachFollowerTheSame(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	cost := func(n int) int {
		// Long sessions send few pings, which are counted too.
		o := unhurried(Options{Servers: []string{server.Addr()}, Root: fmt.Sprintf("/h%d", n), Tick: tick})
		leader := newClient(t, "leader", o)
		held := leader.win(t, "jobs")
		var others []*client
		seen := make([]backend.Lease, n)
		for i := range n {
			c := newClient(t, fmt.Sprintf("c%d", i), o)
			others = append(others, c)
			seen[i] = c.look(t, "jobs")
		}
		received := func() (n int) {
			for _, line := range strings.Split(server.Asks(t, "srvr"), "\n") {
				fmt.Sscanf(line, "Received: %d", &n)
			}
			return n
		}
		heard := make(chan error, n)
		ready := make(chan struct{}, n)
		for i, c := range others {
			go func() { ready <- struct{}{}; heard <- c.Listen(t.Context(), seen[i:i+1]) }()
			<-ready
		}
		before := received()
		if err := leader.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
			t.Fatal(err)
		}
		won := 0
		for range n {
			if err := <-heard; err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range others {
			l := c.look(t, "jobs")
			if l.ObserveFor != 0 {
				continue
			}
			if got, err := c.try(l); err == nil && got.Outcome == backend.Granted {
				won++
			}
		}
		if won != 1 {
			t.Fatalf("want one of %d followers to be granted, got %d", n, won)
		}
		return received() - before
	}
	few, many := cost(4), cost(16)
	t.Logf("requests for a handover with 4 followers: %d, with 16: %d", few, many)
	if limit := 12*16 + 20; many > limit {
		t.Errorf("a handover with 16 followers has cost %d requests, more than %d", many, limit)
	}
}

// The servers decide how long a session is. One that is too short for a lease is
// noticed before anybody trusts in it.
func TestServersThatGrantShorterSessionsAreDenied(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"maxSessionTimeout=2000"}})
	o := Options{Servers: []string{server.Addr()}, Root: "/short", Tick: tick, MaxSession: longest}
	a := newClient(t, "a", o)
	_, err := a.try(backend.Lease{Election: "jobs"})
	if backend.Class(err) != backend.ErrDenied || !strings.Contains(err.Error(), "maxSessionTimeout") {
		t.Fatalf("a lease of %v on servers whose sessions have 2s: want ErrDenied that says what to raise, got %v", ttl, err)
	}
	answers, err := a.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: a.me, TTL: time.Second, Renew: time.Second / 3, Expected: backend.Lease{Election: "jobs"}}})
	if err != nil || answers[0].Outcome != backend.Granted || answers[0].ValidFor > time.Second {
		t.Fatalf("a lease for which they are long enough: want granted, got %+v, %v", answers, err)
	}
}

// Everything that was started ends with Close.
func TestCloseLeavesNothingRunning(t *testing.T) {
	o := shared(t)
	before := runtime.NumGoroutine()
	for range 5 {
		a := newClient(t, "a", o)
		held := a.win(t, "jobs")
		if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
			t.Fatal(err)
		}
		a.win(t, "kept")
		a.Close()
	}
	down := o
	down.Servers = []string{"127.0.0.1:1"}
	a := newClient(t, "a", down)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	_, err := a.Observe(ctx, []backend.Lease{{Election: "x"}})
	cancel()
	if backend.Class(err) != backend.ErrUnavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("with no server there: want ErrUnavailable that says why, got %v", err)
	}
	a.Close()
	testbed.Eventually(t, patience, "the goroutines to end", func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}
