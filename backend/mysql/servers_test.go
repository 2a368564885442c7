package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// maxTTL is the greatest TTL of new tables.
const maxTTL = 15 * time.Second

func TestAFailoverThatLosesWritesElectsNobodyTooEarly(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
		l := newLabOn(t, primary)
		proxy := primary.Proxy(t)
		o := Options{Config: proxy.Config(l.User), NotifyConns: -1}
		a, b := openNode(t, "a", o), openNode(t, "b", o)
		held, lost := a.lead("held", time.Second), a.lead("lost", time.Second)
		if err := a.release(a.lead("free", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		replica.WaitCaughtUp(t)
		replica.StopReplication(t)
		// The new primary will never receive these.
		lost, err := b.mustTake("lost", lost)
		if err != nil {
			t.Fatal(err)
		}
		unknown := b.lead("unknown", time.Second)
		primary.Kill(t)

		// A replica is not a store, whatever it shows.
		proxy.SetTarget(replica.Addr())
		proxy.Reset()
		if _, err := b.tryObserve("held"); backend.Class(err) != backend.ErrUnavailable || err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("reading from a read-only replica: %v; it must not count as observation", err)
		}
		replica.Promote(t)
		for name, was := range map[string]backend.Lease{"held": held, "lost": lost, "free": {}, "unknown": unknown, "new": {}} {
			got := b.observe(name)
			if got.ObserveFor != maxTTL {
				t.Errorf("%q after the failover: ObserveFor %v, want the greatest TTL: %+v", name, got.ObserveFor, got)
			}
			if got.Version == was.Version {
				t.Errorf("%q: the Version must change with the server: %q", name, got.Version)
			}
		}
		if x, err := a.renew(held); err != nil || x.Outcome != backend.Refused {
			t.Errorf("a renewal on another server than granted: %v, %v; want refused", x.Outcome, err)
		}
		if x, err := a.bid(backend.Lease{Election: "held"}, time.Second); err != nil || x.Outcome != backend.Refused {
			t.Errorf("an own leftover from another server: %v, %v; want refused: it must be observed too", x.Outcome, err)
		}
		if err := a.release(held, backend.Failed); err != nil || a.observe("held").Vacant() {
			t.Errorf("a release on another server than granted changes nothing: %v", err)
		}
		for name, was := range map[string]backend.Lease{"held": held, "lost": lost, "unknown": unknown} {
			got := b.lead(name, time.Second) // as if it had been observed
			if got.Term <= was.Term {
				t.Errorf("%q: term %d after the failover, %d was granted before it", name, got.Term, was.Term)
			}
			b.mustRenew(got)
			if got := a.observe(name); got.ObserveFor != time.Second {
				t.Errorf("%q: once the new server has granted it, ObserveFor is %v, want its TTL", name, got.ObserveFor)
			}
		}
		if got := b.observe("new"); got.ObserveFor != 0 {
			t.Errorf("once the new server has made an election itself, new ones are free: %+v", got)
		}
	})
}

// mustTake takes over the present lease.
func (n *node) mustTake(election string, from backend.Lease) (backend.Lease, error) {
	got := n.lead(election, 5*time.Second)
	if got.Term <= from.Term {
		return got, errors.New("the term did not rise")
	}
	return got, nil
}

func TestAlternatingServersAreReported(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		one, two := testbed.Start(t, testbed.Options{Kind: k}), testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, one)
		two.Exec(t, "CREATE DATABASE "+l.Name, fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s'", l.User.User, l.User.Passwd),
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'127.0.0.1'", l.Name, l.User.User))
		if err := CreateTables(t.Context(), two.Admin(), l.Name, ""); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*testbed.Server{one, two} { // a server that comes back later than this may have been repaired
			s.Exec(t, fmt.Sprintf("UPDATE %s.election_lease SET ttl_us = %d WHERE name = ''", l.Name, (10*time.Minute).Microseconds()))
		}
		proxy := one.Proxy(t)
		n := openNode(t, "n", Options{Config: proxy.Config(l.User), NotifyConns: -1})
		turn := func(s *testbed.Server) error {
			proxy.SetTarget(s.Addr())
			proxy.Reset()
			_, err := n.tryObserve("a")
			return err
		}
		if err := errors.Join(turn(one), turn(two)); err != nil {
			t.Errorf("one change of server is a failover: %v", err)
		}
		for range 3 {
			err := turn(one)
			if !errors.Is(err, backend.ErrDenied) {
				t.Fatalf("alternating servers: %v; want ErrDenied", err)
			}
			for _, s := range []*testbed.Server{one, two} {
				var id string
				if err := s.Admin().QueryRow("SELECT @@server_id").Scan(&id); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(err.Error(), `"`+id+":") {
					t.Errorf("the error does not name the server with server_id %s: %v", id, err)
				}
			}
			if err := turn(two); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("alternating servers: %v; want ErrDenied from both", err)
			}
		}
		ctx, cancel := n.ctx()
		defer cancel()
		if answers, err := n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second, Renew: time.Second / 3}}); !errors.Is(err, backend.ErrDenied) || answers[0].Outcome != backend.Unknown {
			t.Errorf("a bid meanwhile: %v, %+v; want ErrDenied and nothing granted", err, answers)
		}
	})
}

func TestAServerThatBecomesReadOnlyIsLeft(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		n := openNode(t, "n", Options{Config: l.User, NotifyConns: -1})
		held := n.lead("a", time.Second)
		s.ReadOnly(t, true)
		before := l.number(t, "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE USER = ?", l.User.User)
		for _, call := range []func() error{
			func() error { _, err := n.renew(held); return err },
			func() error { _, err := n.tryObserve("a"); return err },
			func() error { _, err := n.bid(held, time.Second); return err },
			func() error { return n.release(held, backend.Released) },
		} {
			if err := call(); err == nil || backend.Class(err) != backend.ErrUnavailable {
				t.Errorf("a read-only server: %v; want unavailable", err)
			}
		}
		s.ReadOnly(t, false)
		n.mustRenew(held)
		testbed.Eventually(t, callLimit, "connections to the read-only server are dropped, since the address may lead elsewhere by now", func() error {
			if old := l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ? AND ID <= ?", l.User.User, before); old > 0 {
				return fmt.Errorf("%d are left", old)
			}
			return nil
		})
	})
}

func TestAServerOutOfConnectionsIsUnavailable(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		n := openNode(t, "n", Options{Config: l.User, NotifyConns: -1})
		held := n.lead("a", time.Second)
		late := l.node(t, "late")
		l.exec(t, "SET GLOBAL max_connections = 10")
		for range 20 {
			conn, err := testbed.OpenDB(t, l.User).Conn(t.Context())
			if err != nil {
				break // full
			}
			defer conn.Close()
		}
		if _, err := late.tryObserve("a"); err == nil || backend.Class(err) != backend.ErrUnavailable {
			t.Errorf("no connection left: %v; want unavailable", err)
		}
		n.mustRenew(held) // has its connections
	})
}

func TestAHangingServerHangsNoCall(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		n := l.node(t, "n")
		held := n.lead("a", time.Second)
		s.Stop(t)
		for what, call := range map[string]func(context.Context) error{
			"renew":    func(ctx context.Context) error { _, err := n.Renew(ctx, []backend.Held{held.Held()}); return err },
			"observe":  func(ctx context.Context) error { _, err := n.Observe(ctx, []backend.Lease{held}); return err },
			"release":  func(ctx context.Context) error { return n.Release(ctx, []backend.Held{held.Held()}) },
			"list":     func(ctx context.Context) error { _, err := n.List(ctx, "", 1); return err },
			"announce": func(ctx context.Context) error { return n.Announce(ctx, backend.Member{Candidate: n.me, TTL: 1}) },
			"acquire": func(ctx context.Context) error {
				_, err := n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second, Expected: held}})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			began := time.Now()
			if err := call(ctx); err == nil || backend.Class(err) != backend.ErrUnavailable {
				t.Errorf("%s on a server that hangs: %v; want unavailable", what, err)
			}
			if took := time.Since(began); took > callLimit/2 { // the connection's own time-out
				t.Errorf("%s returned after %v, its context ended after 200ms", what, took)
			}
			cancel()
		}
		closed := make(chan error)
		go func() { closed <- n.Close() }()
		select {
		case <-closed:
		case <-time.After(callLimit):
			t.Error("Close hangs")
		}
		s.Continue(t)
	})
}

func TestAClockStepChangesNothing(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k, Clock: true})
		l := newLabOn(t, s)
		n, other := l.node(t, "n"), l.node(t, "other")
		held := n.lead("a", time.Second)
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
			s.Step(t, step)
			held = n.mustRenew(held)
			got := other.observe("a")
			if !sameLease(got, held) || got.ObserveFor != time.Second || got.Age < 0 {
				t.Errorf("after a step of %v: %+v", step, got)
			}
			s.Step(t, step)
			if got := other.observe("a"); !sameLease(got, held) || got.Age < 0 {
				t.Errorf("a step of %v between renewals changes the lease: %+v", step, got)
			}
			taken, err := other.bid(got, time.Second)
			if err != nil || taken.Outcome != backend.Granted || taken.Term <= held.Term {
				t.Errorf("a candidate that has observed the lease gets it, whatever the server's clock says: %+v, %v", taken, err)
			}
			held = n.lead("a", time.Second)
			ctx, cancel := n.ctx()
			if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: callLimit}); err != nil {
				t.Error(err)
			}
			if members, err := n.Members(ctx, string(n.me.Nonce), 1); err != nil || len(members) != 1 {
				t.Errorf("members after a step of %v: %v, %v", step, members, err)
			}
			cancel()
		}
	})
}

func TestKilledConnectionsAreReplaced(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		held := n.lead("a", time.Second)
		for range 5 {
			l.server.KillConnections(t, l.User.User)
			held = n.mustRenew(held)
		}
	})
}
