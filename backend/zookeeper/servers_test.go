package zookeeper

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformanceOnAnEnsemble runs, on three servers, the cases about the contract and those in which
// the ensemble loses its leader.
func TestConformanceOnAnEnsemble(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	h := harness(func(t testing.TB) conformance.Store {
		store := newStore(t, testbed.Addrs(servers))
		maps.Copy(store.Faults, testbed.LeaderFaults(t, servers))
		return store
	})
	h.Late = 3 * time.Second
	t.Run("the contract", func(t *testing.T) {
		h := h
		h.Only = func(c conformance.Case) bool {
			return strings.Contains("A1 A5 A7 R1 R3 R5 X1 X2 X4 O2 O3 W1 W3 T2 M1", c.Rule)
		}
		conformance.Run(t, h)
	})
	h.Parallel = false
	h.Only = func(c conformance.Case) bool { return c.Rule == "S1" && c.OwnServer() }
	conformance.Run(t, h)
}

// A server that is cut off from the ensemble's leader goes on answering readings. A process that is
// connected to it does not believe its silence, and goes to another server.
func TestAServerThatIsCutOffIsLeft(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	leader := testbed.Leader(t, servers)
	victim := slices.IndexFunc(servers, func(s *testbed.Daemon) bool { return s != leader })
	a := start(t, "a", Options{Servers: []string{leader.Addr()}})
	held := a.lead("jobs")
	b := start(t, "b", Options{Servers: []string{servers[victim].Addr()}})
	seen := b.read("jobs")
	b.driver.Servers = testbed.Addrs(servers) // b was with the victim so far

	servers[victim].Host().Cut(t, true)
	news := 0
	for cut := time.Now(); ; {
		if a := a.renews(held); a.Outcome != backend.Granted {
			t.Fatalf("a renews: %v", a.Outcome)
		}
		changed, err := b.Observe(b.Context(), []backend.Lease{seen})
		if err == nil && len(changed) == 0 {
			t.Fatal("a server that was cut off has nothing new, and that was believed")
		}
		if err == nil {
			news, seen = news+1, changed[0]
		}
		if news > 3 {
			return // it knows what the other servers know
		}
		if time.Since(cut) > patience {
			t.Fatalf("b has heard of %d renewals since: %v", news, err)
		}
	}
}

// The ensemble ends the session of a leader that was cut off for longer than sessions last, and
// shorter than its TTL. It goes on leading, and its challengers begin to watch anew.
func TestASessionThatEndsCostsNoLeadership(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"minSessionTimeout=1000", "maxSessionTimeout=3000"}})
	proxy := server.Proxy(t)
	admin := testbed.DialZooKeeper(t, []string{server.Addr()})
	a := start(t, "a", Options{Servers: []string{proxy.Addr()}})
	held := a.lead("jobs")
	b := start(t, "b", Options{Servers: []string{server.Addr()}})
	before := b.read("jobs")
	proxy.Cut(true)
	testbed.Eventually(t, patience, "the end of a's session", func() error {
		if exists(t, admin, a.session()) {
			return errors.New("its node is there")
		}
		return nil
	})
	gone := b.read("jobs")
	if gone.Version == before.Version || gone.ObserveFor != ttl {
		t.Errorf("the node of the leader is gone: %+v after %+v; rule violated: that frees nothing, and the watch begins anew", gone, before)
	}
	proxy.Cut(false)
	if a := a.renews(held); a.Outcome != backend.Granted {
		t.Fatalf("a renews: %v; rule violated: the end of a session ends no leadership", a.Outcome)
	}
	if got := b.Bids(before); got.Err != nil || got.Outcome != backend.Refused {
		t.Errorf("b bids by what it has watched before that: %v, %v; want refused", got.Outcome, got.Err)
	}
	if !exists(t, admin, a.session()) {
		t.Error("a has no node")
	}
}

// The only server is restored from a copy of its data, which lacks a grant. It refuses clients that have seen later writes.
// They come back as new clients, notice that it went back, and watch all that is older than that for the greatest TTL.
func TestARestoredEnsembleIsNoticed(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.Options{})
	o := Options{Servers: []string{server.Addr()}}
	a, b := start(t, "a", o), start(t, "b", o)
	a.driver.session.Length, b.driver.session.Length = 4*time.Second, 4*time.Second
	held := a.lead("jobs")
	server.Kill(t)
	saved := server.SaveData(t)
	server.Start(t)
	if a := a.renews(held); a.Outcome != backend.Granted {
		t.Fatalf("a renews after a restart: %v", a.Outcome)
	}
	testbed.NoError(t, a.Release(t.Context(), []backend.Held{held.Held()}))
	lost := b.lead("jobs") // the copy does not have it
	for range 100 {        // so that the copy stays behind
		b.renews(lost)
	}
	server.Kill(t)
	server.ReplaceData(t, saved)
	server.Start(t)
	c := start(t, "c", o) // it was not there before, and has seen nothing
	c.read("other")
	if got := b.renews(lost); got.Outcome != backend.Refused {
		t.Fatalf("b renews a lease whose grant is lost: %v", got.Outcome)
	}
	for _, p := range []*process{a, b} {
		p.read("jobs") // and remembers it before it knows more
		testbed.Eventually(t, patience, p.Me.ID+" writes", func() error {
			if err := p.Bids(backend.Lease{Election: "any"}).Err; err != nil { // a write shows it
				return err
			}
			return nil
		})
		if l := p.read("jobs"); l.ObserveFor < ttl {
			t.Errorf("%s sees %+v after the store went back; want a lease that is watched for %v", p.Me.ID, l, ttl)
		}
	}
}

// A server that has no place for another connection of this address says nothing: it ends the connection. So does one that
// is none of ZooKeeper, or speaks TLS and the client does not, or the other way round.
func TestAServerThatGrantsNoSessionIsNamed(t *testing.T) {
	t.Parallel()
	full := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxClientCnxns=1"}})
	start(t, "a", Options{Servers: []string{full.Addr()}}).read("jobs")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	secure := testbed.StartZooKeeper(t, testbed.Options{TLS: true})
	for _, o := range []Options{
		{Servers: []string{full.Addr()}}, {Servers: []string{other.Listener.Addr().String()}}, {Servers: []string{secure.Addr()}},
		{Servers: []string{full.Addr()}, TLS: secure.TLSConfig()},
	} {
		b := start(t, "b", o)
		want := o.Servers[0] + " grants no session: it has no majority, expects TLS, or allows this address no more connections (maxClientCnxns)"
		if o.TLS != nil {
			want = "no TLS with " + o.Servers[0]
		}
		// A server may end a connection so early that connecting fails.
		testbed.Eventually(t, patience, "the server is named", func() error {
			_, err := b.Looks("jobs")
			if errors.Is(err, backend.ErrUnavailable) && strings.Contains(fmt.Sprint(err), want) {
				return nil
			}
			return fmt.Errorf("%w; want %q", err, want)
		})
	}
}

// A server that has no place for another connection of this address stalls, while others wait for a place. Its leader's
// connection, which is silent for longer than a call, is not given away: no other one could be had.
func TestASilentConnectionIsKeptUntilAnotherIsAccepted(t *testing.T) {
	t.Parallel()
	full := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxClientCnxns=1"}})
	a := start(t, "a", Options{Servers: []string{full.Addr()}})
	held := a.lead("jobs")
	before := a.driver.session.Connection()
	for range 3 {
		testbed.DialZooKeeper(t, []string{full.Addr()}) // it waits
	}
	for range 3 {
		full.Stop(t)
		if got := a.Renews(held); got.Err == nil {
			t.Fatalf("a renews while the server stands still: %v", got.Outcome)
		}
		full.Continue(t)
		if got := a.renews(held); got.Outcome != backend.Granted {
			t.Fatalf("a renews: %v", got.Outcome)
		}
	}
	if now := a.driver.session.Connection(); now != before {
		t.Errorf("a had the connection %+v, and has %+v; want it to be kept", before, now)
	}
}

// A connection on which nothing arrives any more has a successor in the same session, also with TLS and a user.
func TestADeadConnectionIsReplacedInItsSession(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.Options{TLS: true})
	proxy := server.Proxy(t)
	o := Options{Servers: []string{proxy.Addr()}, TLS: server.TLSConfig(), User: "app", Password: canary}
	a := start(t, "a", o)
	held := a.lead("jobs")
	before := a.driver.session.Connection()
	for range 3 {
		proxy.Cut(true)
		a.Renews(held) // in vain, and what is lost now does not come later
		proxy.Cut(false)
		if got := a.renews(held); got.Outcome != backend.Granted {
			t.Fatalf("a renews: %v", got.Outcome)
		}
	}
	if now := a.driver.session.Connection(); now.ID != before.ID || !now.From.After(before.From) {
		t.Errorf("a had the connection %+v, and has %+v; want another one in the same session", before, now)
	}
}
