package consul

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// failOnTwoLeaders fails the test if two elections lead, until the returned function is called.
func failOnTwoLeaders(t *testing.T, elections ...*election.Election) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var first *election.Election
			for _, e := range elections {
				switch {
				case !e.Leading():
				case first == nil:
					first = e
				case first.Leading(): // still, after the second was seen leading
					t.Error("two leaders")
					return
				}
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// waitForLeader waits until one of the elections leads and returns it.
func waitForLeader(t *testing.T, limit time.Duration, elections ...*election.Election) (leader *election.Election) {
	t.Helper()
	testbed.Eventually(t, limit, "a leader", func() error {
		for _, e := range elections {
			if e.Leading() {
				leader = e
				return nil
			}
		}
		return fmt.Errorf("nobody leads: %v", elections[0].Current())
	})
	return leader
}

// The servers lose their leader, which is killed or suspended with its connections open, and elect
// another within less than a TTL. The election's leader keeps leading in its term.
func TestLosingTheServersLeaderKeepsOurs(t *testing.T) {
	const ttl = 18 * time.Second // the servers need a few seconds, and more on a busy machine
	for what, harm := range map[string]func(*testing.T, *testbed.ConsulAgent){
		"killed":  func(t *testing.T, a *testbed.ConsulAgent) { a.Kill(t) },
		"stopped": func(t *testing.T, a *testbed.ConsulAgent) { a.Stop(t) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			agents := testbed.StartConsulCluster(t, testbed.NewNetwork(t, 3), 3)
			l := newLab(t, agents[0])
			first := slices.Index(agents, testbed.Leader(t, agents))
			others := slices.Delete(slices.Clone(agents), first, first+1)
			often := func(o *election.Options) { o.RenewEvery, o.CallTimeout = ttl/12, ttl/12 }
			_, a := l.manager(t, others[0].URL(), "a", ttl, often)
			_, b := l.manager(t, others[1].URL(), "b", ttl, often)
			lead, err := a.Campaign(t.Context())
			fatal(t, err, b.Lead(nil))
			defer failOnTwoLeaders(t, a, b)()
			harm(t, agents[first])
			testbed.Leader(t, agents, agents[first])
			end := time.Now().Add(ttl + ttl/4) // by then, a leader without renewals has stepped down
			for time.Now().Before(end) {
				if !lead.Leading() {
					t.Fatalf("our leader was lost with the servers': %v", a.Current())
				}
				<-time.After(50 * time.Millisecond)
			}
		})
	}
}

// The server of the leader's client is cut off from the other servers. The leader cannot renew. It
// leads until its lease expires, and only then does the majority elect another.
func TestACutOffLeaderStepsDownFirst(t *testing.T) {
	const ttl = 3 * time.Second
	for _, minority := range []string{"follower", "leader"} {
		t.Run("the servers' "+minority, func(t *testing.T) {
			t.Parallel()
			network := testbed.NewNetwork(t, 3)
			agents := testbed.StartConsulCluster(t, network, 3)
			l := newLab(t, agents[0])
			at := slices.Index(agents, testbed.Leader(t, agents))
			if minority == "follower" {
				at = (at + 1) % 3
			}
			_, a := l.manager(t, agents[at].URL(), "a", ttl)
			_, b := l.manager(t, agents[(at+1)%3].URL(), "b", ttl)
			_, c := l.manager(t, agents[(at+2)%3].URL(), "c", ttl)
			lead, err := a.Campaign(t.Context())
			fatal(t, err, b.Lead(nil), c.Lead(nil))
			defer failOnTwoLeaders(t, a, b, c)()
			began := time.Now()
			network.Host(at).Cut(t, true)
			waitForLeader(t, 3*time.Minute, b, c)
			if lead.Leading() {
				t.Fatal("the cut-off leader still leads")
			}
			t.Logf("another leads after %v", time.Since(began))
			network.Host(at).Cut(t, false)
			testbed.Eventually(t, 3*time.Minute, "the cut-off member to see who leads", func() error {
				// The leader may have changed again: a server that returns can make the majority
				// elect its own leader anew, and nothing is renewed meanwhile.
				if who, _, _ := a.Leader(); who.ID == "b" && b.Leading() || who.ID == "c" && c.Leading() {
					return nil
				}
				return fmt.Errorf("it sees %v; b: %v, c: %v", a.Current(), b.Current(), c.Current())
			})
		})
	}
}

// Packets vanish, and nothing is refused. The leader stops when the TTL since its last renewal is
// over, by its own clock, and Close does not hang.
func TestALeaderThatIsBlackHoledStopsByItsOwnClock(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	proxy := agent.Proxy(t)
	m, a := l.manager(t, proxy.Addr(), "a", ttl)
	_, b := l.manager(t, agent.URL(), "b", ttl)
	_, err := a.Campaign(t.Context())
	fatal(t, err, b.Lead(nil))
	defer failOnTwoLeaders(t, a, b)()
	proxy.Cut(true)
	cut := time.Now()
	led := cut
	testbed.Eventually(t, time.Minute, "the leader to step down", func() error {
		if asked := time.Now(); a.Leading() {
			led = asked
			return fmt.Errorf("it still leads")
		}
		return nil
	})
	if took := led.Sub(cut); took > ttl {
		t.Errorf("it trusted its lease for %v after the last packet, at a TTL of %v", took, ttl)
	}
	waitForLeader(t, time.Minute, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	m.Close(ctx)
	if took := time.Since(began); took > 15*time.Second { // a wide bound for a busy machine
		t.Errorf("Close with a deadline of a second took %v", took)
	}
}

// After an orderly end, nobody waits for a lock-delay or a TTL.
func TestAResignationHandsOverInMilliseconds(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // long enough for a busy machine, and for no read to come soon
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	_, a := l.manager(t, agent.URL(), "a", ttl)
	_, b := l.manager(t, agent.URL(), "b", ttl)
	fatal(t, a.Lead(nil), b.Lead(nil))
	defer failOnTwoLeaders(t, a, b)()
	var took []time.Duration
	for range 5 {
		<-time.After(ttl * 3 / 5) // the one that has resigned waits for half a TTL, and both listen again
		old, next := a, b
		testbed.Eventually(t, time.Minute, "one to lead and the other to see it", func() error {
			if b.Leading() {
				old, next = b, a
			} else {
				old, next = a, b
			}
			if _, _, ok := next.Leader(); !ok || !old.Leading() {
				return fmt.Errorf("a: %v, b: %v", a.Current(), b.Current())
			}
			return nil
		})
		led := make(chan struct{}, 1)
		stop := next.Watch(func(e election.Event) {
			if e.Leading {
				select {
				case led <- struct{}{}:
				default:
				}
			}
		})
		began := time.Now()
		go old.Resign(t.Context())
		select {
		case <-led:
		case <-time.After(time.Minute):
			t.Fatal("the other does not lead a minute after a resignation")
		}
		took = append(took, time.Since(began))
		stop()
	}
	slices.Sort(took)
	t.Logf("handover after a resignation: median %v, worst %v", took[len(took)/2], took[len(took)-1])
	if median := took[len(took)/2]; median > 1500*time.Millisecond {
		t.Errorf("the median is %v: is the change not pushed?", median)
	}
}

// Between a release and the next grant there are two requests, and the answer to a blocking query.
func TestAHandoverTakesOneRequestOfEach(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	for _, n := range []*node{a, b} {
		n.ttl = time.Minute
		fatal(t, n.Announce(t.Context(), backend.Member{Candidate: n.me, TTL: n.ttl})) // makes the session
	}
	held := a.win("x")
	seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "x"}})
	fatal(t, err)
	listened := make(chan error, 1)
	go func() { listened <- b.Listen(t.Context(), seen) }()
	testbed.Eventually(t, time.Minute, "b to wait for changes", func() error {
		for _, r := range b.wire.take() {
			if strings.Contains(r.url, "wait=") && strings.Contains(r.url, "index=") {
				return nil
			}
		}
		return fmt.Errorf("b does not listen yet")
	})
	a.wire.take()
	a.release(backend.Released, held)
	fatal(t, <-listened)
	free, err := b.Observe(t.Context(), seen)
	fatal(t, err)
	if len(free) != 1 || free[0].ObserveFor != 0 {
		t.Fatalf("after the release b sees %+v", free)
	}
	b.want("a bid for what was released", b.bid(free[0]), backend.Granted)
	if n, m := len(a.wire.take()), len(b.wire.take()); n != 1 || m != 1 {
		t.Errorf("a has sent %d requests and b %d, want one of each", n, m)
	}
}

// Close leaves no goroutine, and no session if the Backend holds nothing.
func TestClosingLeavesNothingBehind(t *testing.T) {
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	own := func() int {
		buffer := make([]byte, 1<<20)
		n := 0
		for _, g := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			if strings.Contains(g, "net/http.(*persistConn)") || strings.Contains(g, "backend/consul.(*driver)") {
				n++
			}
		}
		return n
	}
	l.root.KV().Get("x", nil) // opens the client's own connection
	before := own()
	left := true
	for try := 0; try < 5 && left; try++ { // Close gives up early on a busy machine
		b, err := Open(Options{Address: agent.URL(), Prefix: l.prefix})
		fatal(t, err)
		me := backend.Candidate{ID: "a", Nonce: backend.NewNonce()}
		fatal(t, b.Announce(t.Context(), backend.Member{Candidate: me, TTL: time.Minute}))
		seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "x"}})
		fatal(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := b.Listen(ctx, seen); err != ctx.Err() {
			t.Errorf("listening: %v, want %v", err, ctx.Err())
		}
		cancel()
		fatal(t, b.Close())
		pair, _, err := l.root.KV().Get(l.session(me.Nonce), nil)
		fatal(t, err)
		left = pair != nil
	}
	if left {
		t.Error("the session exists after Close, five times")
	}
	testbed.Eventually(t, time.Minute, "its goroutines to end", func() error {
		if now := own(); now > before {
			return fmt.Errorf("there are %d, and %d before", now, before)
		}
		return nil
	})
}
