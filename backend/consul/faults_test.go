package consul

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// join opens a manager that has joined the election jobs, through an agent.
func (l *lab) join(t *testing.T, id string, ttl time.Duration, agent *testbed.Daemon) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, open(t, Options{Address: agent.URL(), Prefix: l.prefix}))
}

// The servers lose their leader, which is killed or suspended with its connections open, and elect
// another within less than a TTL. The election's leader keeps leading in its term.
func TestLosingTheServersLeaderKeepsOurs(t *testing.T) {
	const ttl = 24 * time.Second // the servers need a few seconds, and more on a busy machine
	for what, harm := range map[string]func(*testing.T, *testbed.Daemon){
		"killed":  func(t *testing.T, a *testbed.Daemon) { a.Kill(t) },
		"stopped": func(t *testing.T, a *testbed.Daemon) { a.Stop(t) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			agents := testbed.StartConsulCluster(t, 3)
			l := newLab(t, agents[0])
			first := testbed.Leader(t, agents)
			at := slices.Index(agents, first)
			a, b := l.join(t, "a", ttl, agents[(at+1)%3]), l.join(t, "b", ttl, agents[(at+2)%3])
			lead, err := a.Campaign(t.Context())
			testbed.NoError(t, err)
			testbed.NoError(t, b.Lead(nil))
			drivertest.OneLeaderAtMost(t, a, b)
			harm(t, first)
			testbed.Leader(t, agents, first)
			drivertest.KeepsLeading(t, lead, ttl+ttl/4) // by then, a leader without renewals has stepped down
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
			agents := testbed.StartConsulCluster(t, 3)
			l := newLab(t, agents[0])
			at := slices.Index(agents, testbed.Leader(t, agents))
			if minority == "follower" {
				at = (at + 1) % 3
			}
			a := l.join(t, "a", ttl, agents[at])
			b, c := l.join(t, "b", ttl, agents[(at+1)%3]), l.join(t, "c", ttl, agents[(at+2)%3])
			drivertest.StepsDownFirst(t, func(on bool) { agents[at].Host().Cut(t, on) }, a, b, c)
		})
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
		testbed.NoError(t, err)
		me := backend.Candidate{ID: "a", Nonce: backend.NewNonce()}
		testbed.NoError(t, b.Announce(t.Context(), backend.Member{Candidate: me, TTL: time.Minute}))
		seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "x"}})
		testbed.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := b.Listen(ctx, seen); err != ctx.Err() {
			t.Errorf("listening: %v, want %v", err, ctx.Err())
		}
		cancel()
		testbed.NoError(t, b.Close())
		pair, _, err := l.root.KV().Get(l.session(me.Nonce), nil)
		testbed.NoError(t, err)
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

// An agent keeps the connection of a query that was given up for as long as the query would have waited, and counts it
// among those that one address may have.
func TestAQueryThatIsGivenUpEndsSoon(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	proxy := testbed.NewProxy(t, l.agent.Addr())
	n := l.node(t, "n", func(o *Options) { o.Address = proxy.Addr() })
	held := n.Leads("x")
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		n.Listen(ctx, []backend.Lease{held})
		cancel()
	}
	testbed.Eventually(t, time.Minute, "the connections end", func() error {
		if open := proxy.Open(); open > maxConns {
			return fmt.Errorf("there are %d, want at most %d", open, maxConns)
		}
		return nil
	})
}

// While there is no record, each write in Consul answers a query that waits: Vault's, say, thousands in a second. And a
// proxy that keeps answers does not let it wait.
func TestAQueryThatDoesNotWaitIsNotRepeatedAtOnce(t *testing.T) {
	for _, cached := range []bool{false, true} {
		t.Run(fmt.Sprint("cached ", cached), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testbed.SharedConsul(t))
			n := l.node(t, "n")
			if cached {
				l.node(t, "leader").Leads("x")
				n.wire.next = impatient{n.wire.next}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			go n.driver.Listen(ctx, 0, nil, func([]lease.Item, uint64) bool { return true })
			writes := 0
			for ; ctx.Err() == nil; writes++ {
				l.root.KV().Put(&api.KVPair{Key: l.prefix + "-other", Value: fmt.Append(nil, writes)}, nil)
			}
			if sent := len(n.wire.take()); sent > 6 {
				t.Errorf("%d requests beside %d writes of another program in 3 s; want one in a second", sent, writes)
			}
		})
	}
}

// impatient is a proxy that answers a query at once, though nothing has changed.
type impatient struct{ next http.RoundTripper }

func (p impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.RawQuery = "consistent&recurse"
	return p.next.RoundTrip(r)
}

// interrupted is a transport that does something before keys are listed.
type interrupted struct {
	http.RoundTripper
	first func()
}

func (i *interrupted) RoundTrip(r *http.Request) (*http.Response, error) {
	if first := i.first; first != nil && r.URL.Query().Has("keys") {
		i.first = nil
		first()
	}
	return i.RoundTripper.RoundTrip(r)
}

// The meta item is read before the records are counted.
func TestTheFirstRecordThatIsMadeWhileAnotherReadsIsNoLoss(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, n := l.node(t, "a"), l.node(t, "n")
	n.wire.next = &interrupted{n.wire.next, func() { a.Leads("first") }}
	if seen := n.Sees("jobs"); seen.ObserveFor > 0 {
		t.Errorf("one that was never led must be observed for %v", seen.ObserveFor)
	}
}

// An agent allows one connection. The calls of a process share it, and its listener does without for a while.
func TestAListenerGivesItsPlaceToARenewal(t *testing.T) {
	t.Parallel()
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{"-hcl=limits {http_max_conns_per_client = 1}"}})
	e := drivertest.Join(t, "a", 6*time.Second, open(t, Options{Address: agent.URL()}))
	led, err := e.Campaign(t.Context())
	testbed.NoError(t, err)
	drivertest.KeepsLeading(t, led, 20*time.Second)
}

// through returns a proxy before an agent, and what reads through it within a limit.
func through(t *testing.T) (proxy *testbed.Proxy, read func(limit time.Duration) error) {
	proxy = testbed.SharedConsul(t).Proxy(t)
	d := connect(t, proxy.Addr())
	return proxy, func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := d.Read(ctx, nil)
		return err
	}
}

// An agent that is slow may have no place for the next connection.
func TestALateAnswerCostsNoConnection(t *testing.T) {
	t.Parallel()
	proxy, read := through(t)
	testbed.NoError(t, read(time.Minute))
	proxy.SetTarget("127.0.0.1:1") // nobody is there
	proxy.Hold(true)
	if err := read(500 * time.Millisecond); err == nil {
		t.Fatal("a call is answered through a proxy that holds everything back")
	}
	proxy.Hold(false)
	testbed.Eventually(t, 10*time.Second, "the next call", func() error { return read(time.Second) })
}

func TestDeadConnectionsCostOneCall(t *testing.T) {
	t.Parallel()
	proxy, read := through(t)
	drivertest.DeadConnectionsCostOneCall(t, proxy, read)
}
