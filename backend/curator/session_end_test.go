package curator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
	"github.com/go-zookeeper/zk"
)

// The nodes of a holder are gone because its session has ended or an operator has deleted
// them. The holder may not know, and trust its last renewal.
func TestAnEndedSessionIsObservedForItsTTL(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, a *client, admin *zk.Conn, held backend.Lease){
		"closed": func(t *testing.T, a *client, _ *zk.Conn, _ backend.Lease) { a.session.Close(true) },
		"deleted by hand": func(t *testing.T, a *client, admin *zk.Conn, held backend.Lease) {
			for _, path := range []string{a.layout.nodePath("jobs", nodeOf(held)), a.layout.sessionPath(sessionName(a.session.id()))} {
				if err := admin.Delete(path, -1); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := longSessions(shared(t))
			a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
			held := a.winLongSession(t, "jobs")
			end(t, a, admin, held)
			var got backend.Lease
			testbed.Eventually(t, patience, "its nodes are gone", func() error {
				if got = b.observeOne(t, "jobs"); !got.Vacant() {
					return errNone
				}
				return nil
			})
			if got.ObserveFor < held.TTL {
				t.Errorf("two leaders: a trusts its lease for %v, and b need not watch it for more than %v", held.TTL, got.ObserveFor)
			}
			if again := b.observeOne(t, "jobs"); !again.Unchanged(got) {
				t.Errorf("the watch never ends: %+v, then %+v", got, again)
			}
			if won, err := b.try(got); err != nil || won.Outcome != backend.Granted || won.Term <= held.Term {
				t.Errorf("after that watch: %v, term %d after %d, %v; want granted", won.Outcome, won.Term, held.Term, err)
			}
		})
	}
}

// A server may be restarted with a smaller maxSessionTimeout, and the next connection
// shortens the session.
func TestShortenedSessionsElectNobodyTooEarly(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	proxy := testbed.NewProxy(t, server.Addr())
	o := longSessions(Options{Servers: []string{server.Addr()}, Root: "/lowered", Tick: tick})
	b := newClient(t, "b", o)
	o.Servers = []string{proxy.Addr()}
	a := newClient(t, "a", o)
	bid := a.bid(a.observeOne(t, "jobs"))
	bid.TTL, bid.Renew = 9*time.Second, 3*time.Second
	answers, err := a.Acquire(t.Context(), []backend.Bid{bid})
	if err != nil || answers[0].Outcome != backend.Granted {
		t.Fatal(answers, err)
	}
	b.observeOne(t, "jobs")
	reconfigure(t, server, "maxSessionTimeout=20000", "maxSessionTimeout=1000")
	if answers, err = a.renew(answers[0].Lease); err != nil || answers[0].Outcome != backend.Granted {
		t.Fatal(answers, err)
	}
	before := a.session.Connection()
	server.Kill(t)
	server.Start(t)
	testbed.Eventually(t, patience, "a is connected again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := a.session.Ready(ctx)
		if err == nil && a.session.Connection() == before {
			err = errNone
		}
		return err
	})
	proxy.Cut(true)
	testbed.Eventually(t, patience, "its session ends", func() error {
		got := b.observeOne(t, "jobs")
		if !got.Vacant() {
			return errNone
		}
		if got.ObserveFor < bid.TTL {
			t.Errorf("two leaders: a may trust its renewal for %v, and b need not observe for more than %v", bid.TTL, got.ObserveFor)
		}
		return nil
	})
}

func reconfigure(t *testing.T, server *testbed.ZooKeeperServer, old, new string) {
	t.Helper()
	file := filepath.Join(server.Dir(), "zoo.cfg")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s, which is to have %s: %v", text, old, err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The library alone would request the session length that it was granted last.
func TestLongerSessionsAreRequestedOnceAllowed(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"maxSessionTimeout=1000"}})
	a := newClient(t, "a", longSessions(Options{Servers: []string{server.Addr()}, Root: "/raised", Tick: tick}))
	if _, err := a.try(a.observeOne(t, "jobs")); backend.Class(err) != backend.ErrDenied || !strings.Contains(err.Error(), "raise their maxSessionTimeout") {
		t.Fatalf("a bid for which sessions are too short: %v; want denied, and what to do", err)
	}
	reconfigure(t, server, "maxSessionTimeout=1000", "maxSessionTimeout=20000")
	server.Kill(t)
	server.Start(t)
	testbed.Eventually(t, patience, "a bid is granted once that was done", func() error {
		_, err := a.try(a.observeOne(t, "jobs"))
		return err
	})
}

// A session may be replaced by a longer one if nothing depends on it. Calls that have begun
// before must not use it for a grant.
func TestASessionBeingReplacedGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		t.Run(string(layout), func(t *testing.T) {
			o := longSessions(shared(t))
			o.Layout = layout
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			seen := a.observeOne(t, "jobs")
			a.mu.Lock()
			s := a.session
			s.beingReplaced = true
			a.mu.Unlock()
			id := s.id()
			if _, err := a.acquire(t.Context(), s, id, a.bid(seen), watchedRead()); backend.Class(err) != backend.ErrUnavailable {
				t.Errorf("a bid by a session that is being closed: %v; want unavailable", err)
			}
			if own := a.lockOf("jobs"); !own.empty() {
				t.Errorf("something was asked for: %+v", own)
			}
			if won, err := b.try(b.observeOne(t, "jobs")); err != nil || won.Outcome != backend.Granted {
				t.Errorf("nothing was requested, but b's bid is %v, %v", won.Outcome, err)
			}
		})
	}
}

func TestARecordWithLongValuesIsTakenOver(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	path := a.layout.recordPath("jobs")
	text, _, err := admin.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("<", 200<<10) // six times as long in JSON
	for _, name := range []string{"last_id", "end", "moved_from"} {
		planted := strings.Replace(string(text), `{`, `{"`+name+`":"`+long+`",`, 1)
		planted = strings.Replace(planted, `"last_id":"a",`, "", 1)
		if _, err := admin.Set(path, []byte(planted), -1); err != nil {
			t.Fatal(err)
		}
		got, err := a.try(a.observeOne(t, "jobs"))
		if err != nil || got.Outcome != backend.Granted {
			t.Fatalf("%s of %d bytes: %v, %v; want granted", name, len(long), got.Outcome, err)
		}
		if err := a.release(backend.Lease{Election: "jobs", Term: got.Term, End: backend.Released}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Set(path, []byte(`{"election":"jobs","term":1,"heartbeat":"1","holder":{"ttl":"`+long+`"}}`), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.try(a.observeOne(t, "jobs")); backend.Class(err) != backend.ErrDenied || len(err.Error()) > 1000 {
		t.Errorf("a record that cannot be read: class %v, %d bytes; want denied, in a few words", backend.Class(err), len(err.Error()))
	}
}

func TestMembersReturnAfterTheirParentWasDeleted(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	m := backend.Member{Candidate: a.me, TTL: ttl}
	if err := a.Announce(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	deleteAll(t, admin, o.Root+"/member")
	testbed.Eventually(t, patience, "a is a member again", func() error {
		if err := a.Announce(t.Context(), m); err != nil {
			t.Fatalf("announce: %v", err)
		}
		list, err := a.Members(t.Context(), "", 10)
		if err == nil && len(list) != 1 {
			err = errNone
		}
		return err
	})
}

// Others observe the session record, and in it the grant, that the record names.
func TestARecordOfAnotherGrantIsNotRenewed(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][2]string{
		"session": {`"session":"`, `"session":"0`},
		"grant":   {`"grant":`, `"grant":1`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := longSessions(shared(t))
			a, admin := newClient(t, "a", o), dial(t, o.Servers)
			held := a.winLongSession(t, "jobs")
			path := a.layout.recordPath("jobs")
			text, _, err := admin.Get(path)
			if err != nil || !strings.Contains(string(text), change[0]) {
				t.Fatalf("%s, %v", text, err)
			}
			if _, err := admin.Set(path, []byte(strings.Replace(string(text), change[0], change[1], 1)), -1); err != nil {
				t.Fatal(err)
			}
			if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
				t.Errorf("a renewal: %+v, %v; want refused, because others do not read it", answers, err)
			}
		})
	}
}

func TestAnEditedSessionRecordBringsNoHeartbeatBack(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.win(t, "jobs")
	first := b.observeOne(t, "jobs") // before any renewal
	answers, err := a.renew(held)
	if err != nil || answers[0].Outcome != backend.Granted {
		t.Fatal(answers, err)
	}
	for _, junk := range []string{"", "{}", "mine"} {
		if _, err := admin.Set(a.layout.sessionPath(sessionName(a.session.id())), []byte(junk), -1); err != nil {
			t.Fatal(err)
		}
		if now := b.observeOne(t, "jobs"); now.Unchanged(first) {
			t.Errorf("%q in the session record just after a renewal: b reads the heartbeat that it has observed before the renewal", junk)
		}
	}
	if answers, err = a.renew(answers[0].Lease); err != nil || answers[0].Outcome != backend.Granted {
		t.Errorf("the next renewal: %+v, %v; want granted", answers, err)
	}
}
