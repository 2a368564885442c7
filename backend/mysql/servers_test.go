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

// maxTTL is what new tables have.
const maxTTL = 15 * time.Second

func TestALeaseSurvivesARestartOfItsServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		n := l.node(t, "n")
		held := n.lead("a", time.Second)
		free := n.lead("b", time.Second)
		if err := n.release(free, backend.Released); err != nil {
			t.Fatal(err)
		}
		for _, end := range []func(testing.TB){s.Terminate, s.Kill} {
			end(t)
			a, err := n.renew(held)
			if a.Outcome != backend.Unknown || backend.Class(err) != backend.ErrUnavailable {
				t.Errorf("a renewal without a server: %v, %v; want unknown and unavailable", a.Outcome, err)
			}
			s.Start(t)
			held = n.mustRenew(held)
			if got := n.see("b"); got.Watch != 0 {
				t.Errorf("a server that keeps every commit shows a vacant lease as free after a restart: %+v", got)
			}
			if got := n.see("new"); got.Watch != 0 {
				t.Errorf("and a new election, too: %+v", got)
			}
		}
	})
}

func TestAServerThatMayHaveLostCommitsIsWatchedAfterARestart(t *testing.T) {
	for _, args := range [][]string{
		{"--innodb-flush-log-at-trx-commit=0"},
		{"--log-bin=binlog", "--server-id=7", "--sync-binlog=0"}, // recovery rolls back what the log does not have
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			watchedAfterARestart(t, args)
		})
	}
}

func watchedAfterARestart(t *testing.T, args []string) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k, Args: args})
		l := newLabOn(t, s)
		n, other := l.node(t, "n"), l.node(t, "other")
		greatest := func(d time.Duration) {
			l.exec(t, fmt.Sprintf("UPDATE election_lease SET ttl_us = %d WHERE name = ''", d.Microseconds()))
		}
		greatest(time.Second)
		testbed.Eventually(t, callLimit, "the server is up for the greatest TTL", func() error {
			if got := n.see("a"); got.Watch != 0 {
				return fmt.Errorf("Watch is %v", got.Watch)
			}
			return nil
		})
		held := n.lead("a", time.Second)
		if err := n.release(n.lead("b", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		// What was written a moment ago may be lost, but the server has flushed
		// this: it does so once a second.
		const long = 10 * time.Minute // longer than any start takes
		greatest(long)
		testbed.Eventually(t, callLimit, "the log is flushed", func() error {
			_, err := l.admin.Exec("FLUSH ENGINE LOGS")
			return err
		})
		s.Terminate(t)
		s.Start(t)
		for _, name := range []string{"a", "b", "new"} {
			if got := other.see(name); got.Watch != long {
				t.Errorf("%q just after the restart: Watch %v; each lease is watched for the greatest TTL, %v", name, got.Watch, long)
			}
		}
		if a, err := n.bid(backend.Lease{Election: "a"}, time.Second); err != nil || a.Outcome != backend.Refused {
			t.Errorf("a leftover of one's own, on a server that may have lost what came after it: %v, %v; it must be watched, too", a.Outcome, err)
		}
		n.mustRenew(held)
		greatest(time.Second)
		last := l.node(t, "last") // who was there has noticed a restart, and is wary for as long as it was to be then
		testbed.Eventually(t, callLimit, "all is as before after the greatest TTL", func() error {
			if a, b := last.see("a"), last.see("b"); a.Watch != time.Second || b.Watch != 0 {
				return fmt.Errorf("Watch %v and %v", a.Watch, b.Watch)
			}
			return nil
		})
	})
}

func TestAWatchDoesNotGoOnAcrossARestartThatLostCommits(t *testing.T) {
	calm := status{server: "Q", stamp: "P", same: false, maxTTL: maxTTL}
	careful := calm
	careful.careful = true
	for what, r := range map[string]row{
		"held for the greatest TTL": {found: true, same: true, Lease: backend.Lease{Election: "x", Holder: backend.Candidate{ID: "a", Nonce: "n"}, Term: 5, Beat: 7, TTL: maxTTL}},
		"vacant":                    {found: true, same: true, Lease: backend.Lease{Election: "x", Term: 5, Beat: 7}},
		"written by another server": {found: true, stamp: "P", Lease: backend.Lease{Election: "x", Term: 5, Beat: 7}},
		"without a row":             {Lease: backend.Lease{Election: "x"}},
	} {
		before, during := r, r
		before.judge(&calm, "me")
		during.judge(&careful, "me")
		if during.Unchanged(before.Lease) || before.Ref == during.Ref {
			t.Errorf("%s: the watch goes on when carefulness begins or ends: %q, %v", what, during.Ref, during.Watch)
		}
		if during.Watch != maxTTL {
			t.Errorf("%s: Watch %v, want the greatest TTL", what, during.Watch)
		}
	}
}

func TestAServerThatWasSeenToLoseCommitsIsNotTrustedAfterARestart(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		const greatest = 10 * time.Minute // longer than any start takes
		l.exec(t, fmt.Sprintf("UPDATE election_lease SET ttl_us = %d WHERE name = ''", greatest.Microseconds()))
		n, other := l.node(t, "n"), l.node(t, "other")
		if err := n.release(n.lead("a", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		if got := other.see("a"); got.Watch != 0 {
			t.Fatalf("a server that keeps every commit: %+v", got)
		}
		l.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 2") // not in its configuration
		other.see("a")
		s.Terminate(t)
		s.Start(t)
		if got := other.see("a"); got.Watch != greatest {
			t.Errorf("it was seen not to keep every commit, and was restarted: Watch %v, want the greatest TTL", got.Watch)
		}
	})
}

func TestAFailoverThatLosesWritesElectsNobodyTooEarly(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
		l := newLabOn(t, primary)
		proxy := primary.Proxy(t)
		o := Options{Config: proxy.Config(l.User), DoorBells: -1}
		a, b := openNode(t, "a", o), openNode(t, "b", o)
		held, lost := a.lead("held", time.Second), a.lead("lost", time.Second)
		if err := a.release(a.lead("free", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		replica.WaitCaughtUp(t)
		replica.StopReplication(t)
		// The new primary will never hear of these.
		lost, err := b.mustTake("lost", lost)
		if err != nil {
			t.Fatal(err)
		}
		unknown := b.lead("unknown", time.Second)
		primary.Kill(t)

		// A replica is no store, whatever it shows.
		proxy.SetTarget(replica.Addr())
		proxy.Reset()
		if _, err := b.trySee("held"); backend.Class(err) != backend.ErrUnavailable || err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("reading from a read-only replica: %v; it must not count as watching", err)
		}
		replica.Promote(t)
		for name, was := range map[string]backend.Lease{"held": held, "lost": lost, "free": {}, "unknown": unknown, "new": {}} {
			got := b.see(name)
			if got.Watch != maxTTL {
				t.Errorf("%q after the failover: Watch %v; each lease is watched for the greatest TTL: %+v", name, got.Watch, got)
			}
			if got.Ref == was.Ref {
				t.Errorf("%q: the change of server must show in what is watched: %q", name, got.Ref)
			}
		}
		if x, err := a.renew(held); err != nil || x.Outcome != backend.Refused {
			t.Errorf("a renewal on another server than granted: %v, %v; want refused", x.Outcome, err)
		}
		if x, err := a.bid(backend.Lease{Election: "held"}, time.Second); err != nil || x.Outcome != backend.Refused {
			t.Errorf("a leftover of one's own from another server: %v, %v; it must be watched, too", x.Outcome, err)
		}
		if err := a.release(held, backend.Failed); err != nil || a.see("held").Vacant() {
			t.Errorf("a release on another server than granted changes nothing: %v", err)
		}
		for name, was := range map[string]backend.Lease{"held": held, "lost": lost, "unknown": unknown} {
			got := b.lead(name, time.Second) // as if it had been watched
			if got.Term <= was.Term {
				t.Errorf("%q: term %d after the failover, %d was granted before it", name, got.Term, was.Term)
			}
			b.mustRenew(got)
			if got := a.see(name); got.Watch != time.Second {
				t.Errorf("%q: once the new server has granted it, Watch is %v, want its TTL", name, got.Watch)
			}
		}
		if got := b.see("new"); got.Watch != 0 {
			t.Errorf("once the new server has made an election itself, new ones are free: %+v", got)
		}
	})
}

// mustTake takes a lease over as it stands.
func (n *node) mustTake(election string, from backend.Lease) (backend.Lease, error) {
	got := n.lead(election, 5*time.Second)
	if got.Term <= from.Term {
		return got, errors.New("the term did not rise")
	}
	return got, nil
}

func TestServersThatTakeTurnsAreReported(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		one, two := testbed.Start(t, testbed.Options{Kind: k}), testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, one)
		two.Exec(t, "CREATE DATABASE "+l.Name, fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s'", l.User.User, l.User.Passwd),
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'127.0.0.1'", l.Name, l.User.User))
		if err := CreateTables(t.Context(), two.Admin(), l.Name, ""); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*testbed.Server{one, two} { // servers that come back later than this may have been repaired
			s.Exec(t, fmt.Sprintf("UPDATE %s.election_lease SET ttl_us = %d WHERE name = ''", l.Name, (10*time.Minute).Microseconds()))
		}
		proxy := one.Proxy(t)
		n := openNode(t, "n", Options{Config: proxy.Config(l.User), DoorBells: -1})
		turn := func(s *testbed.Server) error {
			proxy.SetTarget(s.Addr())
			proxy.Reset()
			_, err := n.trySee("a")
			return err
		}
		if err := errors.Join(turn(one), turn(two)); err != nil {
			t.Errorf("one change of server is a failover: %v", err)
		}
		for range 3 {
			err := turn(one)
			if !errors.Is(err, backend.ErrDenied) {
				t.Fatalf("servers that take turns: %v; want ErrDenied", err)
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
				t.Errorf("servers that take turns: %v; want ErrDenied from both", err)
			}
		}
		ctx, cancel := n.ctx()
		defer cancel()
		if answers, err := n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second, Renew: time.Second / 3}}); !errors.Is(err, backend.ErrDenied) || answers[0].Outcome != backend.Unknown {
			t.Errorf("a bid meanwhile: %v, %+v; nothing is granted", err, answers)
		}
	})
}

func TestAServerThatBecomesReadOnlyIsLeft(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		n := openNode(t, "n", Options{Config: l.User, DoorBells: -1})
		held := n.lead("a", time.Second)
		s.ReadOnly(t, true)
		before := l.number(t, "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE USER = ?", l.User.User)
		for _, call := range []func() error{
			func() error { _, err := n.renew(held); return err },
			func() error { _, err := n.trySee("a"); return err },
			func() error { _, err := n.bid(held, time.Second); return err },
			func() error { return n.release(held, backend.Released) },
		} {
			if err := call(); err == nil || backend.Class(err) != backend.ErrUnavailable {
				t.Errorf("a read-only server: %v; want unavailable", err)
			}
		}
		s.ReadOnly(t, false)
		n.mustRenew(held)
		testbed.Eventually(t, callLimit, "connections to the read-only server are dropped, for the address may lead elsewhere by now", func() error {
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
		n := openNode(t, "n", Options{Config: l.User, DoorBells: -1})
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
		if _, err := late.trySee("a"); err == nil || backend.Class(err) != backend.ErrUnavailable {
			t.Errorf("no connection left: %v; want unavailable", err)
		}
		n.mustRenew(held) // has its connections
	})
}

func TestAServerThatHangsHangsNobody(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, s)
		n := l.node(t, "n")
		held := n.lead("a", time.Second)
		s.Stop(t)
		for what, call := range map[string]func(context.Context) error{
			"renew":    func(ctx context.Context) error { _, err := n.Renew(ctx, []backend.Lease{held}); return err },
			"observe":  func(ctx context.Context) error { _, _, err := n.Observe(ctx, []backend.Lease{held}, ""); return err },
			"release":  func(ctx context.Context) error { return n.Release(ctx, []backend.Lease{held}) },
			"list":     func(ctx context.Context) error { _, err := n.List(ctx, "", 1); return err },
			"announce": func(ctx context.Context) error { return n.Announce(ctx, backend.Member{Candidate: n.me, TTL: 1}) },
			"acquire": func(ctx context.Context) error {
				_, err := n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second, Over: held}})
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
			got := other.see("a")
			if !asSeen(got, held) || got.Watch != time.Second || got.Age < 0 {
				t.Errorf("after a step of %v: %+v", step, got)
			}
			s.Step(t, step)
			if got := other.see("a"); !asSeen(got, held) || got.Age < 0 {
				t.Errorf("a step of %v between renewals changes what is watched: %+v", step, got)
			}
			taken, err := other.bid(got, time.Second)
			if err != nil || taken.Outcome != backend.Granted || taken.Term <= held.Term {
				t.Errorf("who has watched the lease gets it, whatever the server's clock says: %+v, %v", taken, err)
			}
			held = n.lead("a", time.Second)
			ctx, cancel := n.ctx()
			if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: callLimit}); err != nil {
				t.Error(err)
			}
			if members, err := n.Members(ctx, n.me.Nonce, 1); err != nil || len(members) != 1 {
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
