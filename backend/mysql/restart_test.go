package mysql

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

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
			if got := n.observe("b"); got.ObserveFor != 0 {
				t.Errorf("a vacant lease after a restart of a server that keeps every commit: %+v, want it free", got)
			}
			if got := n.observe("new"); got.ObserveFor != 0 {
				t.Errorf("a new election after a restart: %+v, want it free", got)
			}
		}
	})
}

func TestAVolatileServerIsWatchedAfterARestart(t *testing.T) {
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
			if got := n.observe("a"); got.ObserveFor != 0 {
				return fmt.Errorf("ObserveFor is %v", got.ObserveFor)
			}
			return nil
		})
		held := n.lead("a", time.Second)
		if err := n.release(n.lead("b", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		// The server may lose what was written a moment ago, but must have flushed this. It
		// flushes once a second.
		const long = 10 * time.Minute // longer than any start takes
		greatest(long)
		testbed.Eventually(t, callLimit, "the log is flushed", func() error {
			_, err := l.admin.Exec("FLUSH ENGINE LOGS")
			return err
		})
		s.Terminate(t)
		s.Start(t)
		for _, name := range []string{"a", "b", "new"} {
			if got := other.observe(name); got.ObserveFor != long {
				t.Errorf("%q just after the restart: ObserveFor %v, want the greatest TTL, %v", name, got.ObserveFor, long)
			}
		}
		if a, err := n.bid(backend.Lease{Election: "a"}, time.Second); err != nil || a.Outcome != backend.Refused {
			t.Errorf("an own leftover, on a server that may have lost later grants: %v, %v; want refused: it must be observed too", a.Outcome, err)
		}
		n.mustRenew(held)
		greatest(time.Second)
		last := l.node(t, "last") // the others have noticed the restart while the greatest TTL was long
		testbed.Eventually(t, callLimit, "leases are observed as before after the greatest TTL", func() error {
			if a, b := last.observe("a"), last.observe("b"); a.ObserveFor != time.Second || b.ObserveFor != 0 {
				return fmt.Errorf("ObserveFor %v and %v", a.ObserveFor, b.ObserveFor)
			}
			return nil
		})
	})
}

func TestAnUncleanRestartBeginsAWatchAnew(t *testing.T) {
	clean := status{server: "Q", writer: "P", sameServer: false, maxTTL: maxTTL}
	unclean := clean
	unclean.uncleanRestart = true
	for what, r := range map[string]row{
		"held for the greatest TTL": {found: true, sameServer: true, Lease: backend.Lease{Election: "x", Holder: backend.Candidate{ID: "a", Nonce: "n"}, Term: 5, TTL: maxTTL}, heartbeat: 7},
		"vacant":                    {found: true, sameServer: true, Lease: backend.Lease{Election: "x", Term: 5}, heartbeat: 7},
		"written by another server": {found: true, writer: "P", Lease: backend.Lease{Election: "x", Term: 5}, heartbeat: 7},
		"without a row":             {Lease: backend.Lease{Election: "x"}},
	} {
		before, during := r, r
		before.classify(&clean, "me")
		during.classify(&unclean, "me")
		if during.Unchanged(before.Lease) || before.Version == during.Version {
			t.Errorf("%s: observation continues across an unclean restart: %q, %v", what, during.Version, during.ObserveFor)
		}
		if during.ObserveFor != maxTTL {
			t.Errorf("%s: ObserveFor %v, want the greatest TTL", what, during.ObserveFor)
		}
	}
}

func TestAServerOnceVolatileIsWatchedAfterARestart(t *testing.T) {
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
		if got := other.observe("a"); got.ObserveFor != 0 {
			t.Fatalf("a server that keeps every commit: %+v", got)
		}
		l.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 2") // not in its configuration
		other.observe("a")
		s.Terminate(t)
		s.Start(t)
		if got := other.observe("a"); got.ObserveFor != greatest {
			t.Errorf("the server once did not keep every commit, and was restarted: ObserveFor %v, want the greatest TTL", got.ObserveFor)
		}
	})
}

func TestEachRestartBeginsAWatchAnew(t *testing.T) {
	var s servers
	began := time.Now()
	boots := func(boot string, after time.Duration) int {
		now := began.Add(after)
		_, n := s.recordBoot(boot, "", maxTTL, now, now)
		return n
	}
	before, same, first, second := boots("a", 0), boots("a", 5*time.Second), boots("b", 10*time.Second), boots("c", 20*time.Second)
	if before != same || same == first || first == second {
		t.Errorf("restarts counted: %d, %d, %d, %d", before, same, first, second)
	}
	lease := func(boots int) row {
		r := row{found: true, sameServer: true}
		r.classify(&status{server: "s", uncleanRestart: true, maxTTL: maxTTL, restarts: boots}, "")
		return r
	}
	if lease(1).Version == lease(2).Version {
		t.Error("observation continues across a restart")
	}
}

func TestABootIsVerifiedAfterTheGreatestTTL(t *testing.T) {
	at := time.Now()
	for what, c := range map[string]struct {
		first    time.Duration // how long ago the process first saw this start
		other    bool          // another start was seen before
		verified string
		unclean  bool
	}{
		"seen for the first time":       {0, false, "", true},
		"seen for nearly long enough":   {maxTTL, false, "", true},
		"seen for long enough":          {maxTTL + time.Second, false, "", false},
		"verified":                      {0, false, "B", false},
		"another one is verified":       {0, false, "A", true},
		"restarted, and verified since": {0, true, "B", false},
		"restarted":                     {maxTTL, true, "A", true},
		"restarted long ago":            {maxTTL + time.Second, true, "A", false},
	} {
		var s servers
		if c.other {
			long := at.Add(-time.Hour)
			s.recordBoot("A", "", maxTTL, long, long)
		}
		if c.first > 0 {
			first := at.Add(-c.first)
			s.recordBoot("B", c.verified, maxTTL, first, first)
		}
		if unclean, _ := s.recordBoot("B", c.verified, maxTTL, at, at.Add(time.Minute)); unclean != c.unclean {
			t.Errorf("%s: unclean: %v, want %v", what, unclean, c.unclean)
		}
	}
}

// A machine boots with a wrong clock. The crash was a moment ago, whatever the server's running
// time says.
func TestAClockThatIsSetAfterACrashDoesNotHideTheCrash(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k, Clock: true, Args: []string{"--innodb-flush-log-at-trx-commit=0"}})
		l := newLabOn(t, s)
		const greatest = 10 * time.Minute
		l.exec(t, fmt.Sprintf("UPDATE election_lease SET ttl_us = %d WHERE name = ''", greatest.Microseconds()))
		s.Terminate(t)
		s.Start(t)
		s.Step(t, time.Hour)
		if got := l.node(t, "late").observe("a"); got.ObserveFor != greatest {
			t.Errorf("the server was started a moment ago, and then its clock was set forward by an hour: ObserveFor %v, want %v", got.ObserveFor, greatest)
		}
	})
}

func TestLaterProcessesUseAVerifiedBoot(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k, Args: []string{"--innodb-flush-log-at-trx-commit=0"}})
		l := newLabOn(t, s)
		l.exec(t, fmt.Sprintf("UPDATE election_lease SET ttl_us = %d WHERE name = ''", time.Second.Microseconds()))
		n := l.node(t, "n")
		testbed.Eventually(t, callLimit, "the first has seen the server for the greatest TTL", func() error {
			if got := n.observe("a"); got.ObserveFor != 0 {
				return fmt.Errorf("ObserveFor is %v", got.ObserveFor)
			}
			return nil
		})
		n.lead("a", time.Second)
		l.exec(t, fmt.Sprintf("UPDATE election_lease SET ttl_us = %d WHERE name = ''", time.Hour.Microseconds()))
		for _, name := range []string{"new", "a"} {
			if got := l.node(t, "late").observe(name); got.ObserveFor > time.Second {
				t.Errorf("%q, once another process has verified the start: ObserveFor %v", name, got.ObserveFor)
			}
		}
		s.Terminate(t)
		s.Start(t)
		if got := l.node(t, "last").observe("new"); got.ObserveFor != time.Hour {
			t.Errorf("after the next restart: ObserveFor %v, want the greatest TTL", got.ObserveFor)
		}
	})
}
