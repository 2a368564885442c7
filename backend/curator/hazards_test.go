package curator

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
	"github.com/go-election/go-election/lab/testbed"
)

// An operator deletes the leader's node. The leader's next renewal is refused although its
// session lives, and others must still observe the lease for its TTL. See
// docs/design/curator.md, "A session outlives its lock node".
func TestADeletedLatchNodeFreesNothingAtOnce(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held, other := a.win(t, "jobs"), a.win(t, "other")
	admin := dial(t, o.Servers)
	if err := admin.Delete(a.layout.nodePath("jobs", nodeOf(held)), -1); err != nil {
		t.Fatal(err)
	}
	seen := b.observeOne(t, "jobs")
	if seen.Holder != a.me || seen.ObserveFor != ttl {
		t.Fatalf("b is to watch a's lease for %v, got %+v", ttl, seen)
	}
	if got, err := b.try(backend.Lease{Election: "jobs", Term: held.Term, Version: seen.Version}); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid without an observation: want refused, got %+v, %v", got, err)
	}
	answers, err := a.renew(held, other)
	if err != nil || answers[0].Outcome != backend.Refused || answers[1].Outcome != backend.Granted {
		t.Fatalf("a's renewals: want the one whose node was deleted refused and the other granted, got %+v, %v", answers, err)
	}
	now := b.observeOne(t, "jobs")
	if !now.Unchanged(seen) {
		t.Fatalf("a's renewal of another election has changed what b watches: from %+v to %+v", seen, now)
	}
	if got, err := b.try(now); err != nil || got.Outcome != backend.Granted || got.Term <= held.Term {
		t.Fatalf("b's bid after its observation: want granted, got %+v, %v", got, err)
	}
	// The release after the loss leaves b's lease alone.
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if l := a.observeOne(t, "jobs"); l.Holder != b.me {
		t.Fatalf("after a's release: want b to lead, got %+v", l)
	}
}

// A deposition is a request in the record, and the holder deletes its node itself. (The
// suite has the rest.) See docs/design/curator.md, "Depositions".
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
	if there, _, err := dial(t, o.Servers).Exists(a.layout.nodePath("jobs", nodeOf(held))); err != nil || !there {
		t.Fatalf("the deposed holder's node is gone before it has released (%v)", err)
	}
}

// The node is created and the answer is lost. A release with term 0 finds the node, and
// without a release the next bid does. See docs/design/curator.md, "Lost answers".
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
			first := a.win(t, "warm") // opens the session and keeps it
			queue := func() []string {
				nodes, _, err := admin.Children(a.layout.lockPath("jobs"))
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					t.Fatal(err)
				}
				return nodes
			}
			over := a.observeOne(t, "jobs")
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
			if nodes := queue(); !slices.Equal(nodes, []string{nodeOf(held)}) {
				t.Fatalf("want the granted node %q alone in the queue, got %q", nodeOf(held), nodes)
			}
			_ = first
		})
	}
}

// A failover wakes each follower a few times, and each makes a few requests, however many
// followers there are. See docs/design/curator.md, "Reads and watches".
func TestAFailoverCostsEachFollowerTheSame(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	cost := func(n int) int {
		// Long sessions send few pings, which are counted too.
		o := longSessions(Options{Servers: []string{server.Addr()}, Root: fmt.Sprintf("/h%d", n), Tick: tick})
		leader := newClient(t, "leader", o)
		held := leader.win(t, "jobs")
		var others []*client
		seen := make([]backend.Lease, n)
		for i := range n {
			c := newClient(t, fmt.Sprintf("c%d", i), o)
			others = append(others, c)
			seen[i] = c.observeOne(t, "jobs")
		}
		received := func() (n int) {
			for _, line := range strings.Split(server.Asks(t, "srvr"), "\n") {
				fmt.Sscanf(line, "Received: %d", &n)
			}
			return n
		}
		listened := make(chan error, n)
		ready := make(chan struct{}, n)
		for i, c := range others {
			go func() { ready <- struct{}{}; listened <- c.Listen(t.Context(), seen[i:i+1]) }()
			<-ready
		}
		before := received()
		if err := leader.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
			t.Fatal(err)
		}
		won := 0
		for range n {
			if err := <-listened; err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range others {
			l := c.observeOne(t, "jobs")
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

// The servers decide how long a session is. A session that is too short for a lease is
// found before anyone trusts the lease.
func TestBidsForTooShortSessionsAreDenied(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"maxSessionTimeout=2000"}})
	o := Options{Servers: []string{server.Addr()}, Root: "/short", Tick: tick, MaxSession: tightSession}
	a := newClient(t, "a", o)
	_, err := a.try(backend.Lease{Election: "jobs"})
	if backend.Class(err) != backend.ErrDenied || !strings.Contains(err.Error(), "maxSessionTimeout") {
		t.Fatalf("a lease of %v on servers with sessions of 2s: want ErrDenied that names the option to raise, got %v", ttl, err)
	}
	answers, err := a.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: a.me, TTL: time.Second, Renew: time.Second / 3, Expected: a.observeOne(t, "jobs")}})
	if err != nil || answers[0].Outcome != backend.Granted || answers[0].ValidFor > time.Second {
		t.Fatalf("a lease for which they are long enough: want granted, got %+v, %v", answers, err)
	}
}

// Close ends everything that was started.
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
