package mysql

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testbed"
)

// waiting returns how many sessions of an account wait for a lock, by their state.
func (l *lab) waiting(t testing.TB) int64 {
	t.Helper()
	return l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND STATE = 'User lock'", l.Name)
}

// untilWaiting waits until n sessions wait for a lock.
func (l *lab) untilWaiting(t testing.TB, n int64) {
	t.Helper()
	testbed.Eventually(t, patience, "followers wait for a lock", func() error {
		if got := l.waiting(t); got != n {
			return fmt.Errorf("%d do, want %d", got, n)
		}
		return nil
	})
}

// connections returns how many an account has.
func (l *lab) connections(t testing.TB, user string) int64 {
	t.Helper()
	return l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", user)
}

// lockOf returns the connection that holds the lock of a session, 0 if none does.
func (l *lab) lockOf(t testing.TB, d *driver, session string) int64 {
	t.Helper()
	return l.number(t, "SELECT COALESCE(IS_USED_LOCK(?), 0)", d.lockName(session))
}

// A follower learns of a resignation at once, whether the schema is named in the DSN or by the option.
func TestAHandoverTakesMilliseconds(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		const ttl = 12 * time.Second // a poll is far away
		l := newLab(t, testbed.Shared(t, k))
		a := join(t, "a", ttl, Options{Config: l.User})
		b := join(t, "b", ttl, Options{Config: clone(l.User, func(c *mysql.Config) { c.DBName = "" }), Schema: l.Name})
		led, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		elected := make(chan time.Time, 10)
		b.Watch(func(ev election.Event) {
			if ev.Leading && ev.Kind == election.Elected {
				elected <- time.Now()
			}
		})
		if err := b.Lead(nil); err != nil {
			t.Fatal(err)
		}
		l.untilWaiting(t, 1)
		began := time.Now()
		if err := led.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := (<-elected).Sub(began); took > 1500*time.Millisecond { // this allows for all other tests; alone it takes milliseconds
			t.Errorf("the handover took %v", took)
		} else {
			t.Logf("the handover took %v", took)
		}
	})
}

// hearing runs a listener to a leader with a session, and returns what it hears.
func hearing(t testing.TB, d *driver, sessions ...string) (heard chan uint64) {
	t.Helper()
	var known []lease.Item
	for _, s := range sessions {
		known = append(known, lease.Item{Value: &lease.Record{Nonce: s}})
	}
	heard, position := make(chan uint64, 1000), read(t, d).Position
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.Listen(ctx, position, known, func(_ []lease.Item, now uint64) bool {
				position = now
				heard <- now
				return true
			})
		}
	}()
	return heard
}

// calm waits until a listener has heard nothing for a second.
func calm(heard chan uint64) {
	for quiet := time.After(time.Second); ; {
		select {
		case <-heard:
			quiet = time.After(time.Second)
		case <-quiet:
			return
		}
	}
}

func notified(t testing.TB, what string, heard chan uint64) {
	t.Helper()
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatalf("%s notified nobody", what)
	}
}

// withLock makes the driver the leader of an election, and waits until it has its lock.
func (l *lab) withLock(t testing.TB, d *driver, name, session string) {
	t.Helper()
	v := read(t, d, recordKey(name))
	mustPut(t, d, &v, &lease.Record{Election: name, Term: 1, Nonce: session})
	testbed.Eventually(t, patience, "the leader has its lock", func() error {
		if l.lockOf(t, d, session) == 0 {
			return errors.New("nobody has")
		}
		return nil
	})
}

// A leader whose connection is killed, or whose process ends, notifies others.
func TestABrokenLeaderNotifies(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		leader, follower := open(t, Options{Config: l.User}), open(t, Options{Config: l.User})
		session := string(backend.NewNonce())
		l.withLock(t, leader, "jobs", session)
		heard := hearing(t, follower, session)
		l.untilWaiting(t, 1)
		calm(heard)
		l.exec(t, fmt.Sprint("KILL ", l.lockOf(t, leader, session)))
		notified(t, "a killed connection", heard)
		// The leader takes another one, once it checks that. A notification is such a check.
		leader.notifier.mu.Lock()
		leader.notifier.checked = time.Time{}
		leader.notifier.mu.Unlock()
		testbed.Eventually(t, patience, "the leader has a lock again", func() error {
			v := read(t, leader, recordKey("jobs"))
			mustPut(t, leader, &v, &lease.Record{Election: "jobs", Term: 1, Nonce: session})
			if l.lockOf(t, leader, session) == 0 {
				return errors.New("it has not")
			}
			return nil
		})
		l.untilWaiting(t, 1)
		calm(heard)
		leader.Close()
		notified(t, "a leader that ends", heard)
	})
}

// A listener whose connection is killed says that something may have changed, and then hears again.
func TestAListenerComesBack(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		leader, follower := open(t, Options{Config: l.User}), open(t, Options{Config: l.User})
		session := string(backend.NewNonce())
		l.withLock(t, leader, "jobs", session)
		heard := hearing(t, follower, session)
		for range 2 {
			l.untilWaiting(t, 1)
			calm(heard)
			v := read(t, leader, recordKey("jobs"))
			w, err := leader.Write(t.Context(), v.Epoch, 0, []lease.Change{{Notify: true, Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1, Nonce: session}}}}}, nil)
			if err != nil || w.Results[0].Outcome != backend.Granted {
				t.Fatal(w, err)
			}
			notified(t, "a change", heard)
			l.untilWaiting(t, 1)
			l.exec(t, fmt.Sprint("KILL ", l.number(t, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND STATE = 'User lock'", l.Name)))
			notified(t, "a killed listener", heard)
		}
	})
}

// A time limit of the server for statements ends no waiting for a lock.
func TestListeningOutlivesAStatementTimeLimit(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		limit := map[testbed.Kind]string{testbed.MariaDB: "--max-statement-time=0.2", testbed.MySQL: "--max-execution-time=200"}
		l := newLab(t, testbed.Start(t, testbed.Options{Kind: k, Args: []string{limit[k]}}))
		leader, follower := open(t, Options{Config: l.User}), open(t, Options{Config: l.User})
		session := string(backend.NewNonce())
		l.withLock(t, leader, "jobs", session)
		heard := hearing(t, follower, session)
		l.untilWaiting(t, 1)
		calm(heard)
		select {
		case <-heard:
			t.Error("a limit of 200 ms releases the lock")
		case <-time.After(time.Second):
		}
	})
}

// A process listens to as many leaders as NotifyConns says, and has no more connections than documented.
func TestOneBackendKeepsToItsConnections(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, conns := range []int{0, 2, -1} {
			l := newLab(t, testbed.Shared(t, k))
			account := l.AddUser(t, "")
			follower := open(t, Options{Config: account, NotifyConns: conns})
			most := map[int]int64{0: DefaultNotifyConns, 2: 2, -1: 0}[conns]
			var sessions []string
			for i := range 6 {
				session := string(backend.NewNonce())
				l.withLock(t, open(t, Options{Config: l.User}), fmt.Sprint("jobs", i), session)
				sessions = append(sessions, session)
			}
			own := read(t, follower)
			mustPut(t, follower, &own, &lease.Record{Election: "own", Term: 1, Nonce: string(backend.NewNonce())})
			if conns >= 0 {
				hearing(t, follower, sessions...)
			}
			l.untilWaiting(t, most)
			done := make(chan bool)
			for range 8 {
				go func() {
					for range 20 {
						follower.Read(t.Context(), nil)
					}
					done <- true
				}()
			}
			for range 8 {
				<-done
			}
			testbed.Eventually(t, patience, "calls at once leave few connections", func() error {
				if n, limit := l.connections(t, account.User), maxConns+1+most; n > limit {
					return fmt.Errorf("with NotifyConns %d: %d, want at most %d", conns, n, limit)
				}
				return nil
			})
		}
	})
}

// Where there are no named locks, all is polled, and the loss of a lock fails no write.
func TestAServerWithoutNamedLocksIsPolled(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		d := open(t, Options{Config: l.User})
		for number, silent := range map[uint16]bool{errUnsupported: true, errNoFunction: true, errDeadlock: false} {
			d.notifier.unsupported.Store(false)
			d.notifier.detectUnsupported(&mysql.MySQLError{Number: number})
			if got := d.notifier.unsupported.Load(); got != silent {
				t.Errorf("after error %d: only polled %v, want %v", number, got, silent)
			}
		}
		d.notifier.unsupported.Store(true)
		v, session := read(t, d), string(backend.NewNonce())
		mustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, Nonce: session})
		heard := hearing(t, d, "other")
		calm(heard)
		if l.lockOf(t, d, session) != 0 || l.waiting(t) != 0 {
			t.Error("a named lock is used")
		}
	})
}

// Close returns soon, also beside a server that hangs, and leaves no goroutine and no connection.
func TestCloseLeavesNothing(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Start(t, testbed.Options{Kind: k})
		l := newLab(t, server)
		for _, hung := range []bool{false, true} {
			d := open(t, Options{Config: l.User})
			other := open(t, Options{Config: l.User})
			l.withLock(t, other, fmt.Sprint("other", hung), "o")
			l.withLock(t, d, fmt.Sprint("jobs", hung), "n")
			heard := make(chan error, 1)
			position := read(t, d).Position
			go func() {
				heard <- d.Listen(t.Context(), position, []lease.Item{{Value: &lease.Record{Nonce: "o"}}}, func([]lease.Item, uint64) bool { return true })
			}()
			l.untilWaiting(t, 1)
			if hung {
				server.Stop(t)
			}
			began := time.Now()
			err := errors.Join(d.Close(), d.Close(), other.Close())
			if took := time.Since(began); err != nil || took > 10*time.Second {
				t.Errorf("Close, while the server hangs %v: %v after %v", hung, err, took)
			}
			if err := <-heard; err == nil {
				t.Error("Listen of a closed driver returned nil")
			}
			if _, err := d.Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("a call after Close: %v", err)
			}
			testbed.Eventually(t, patience, "no goroutine is left", func() error {
				all := make([]byte, 1<<20)
				all = all[:runtime.Stack(all, true)]
				for _, one := range strings.Split(string(all), "\n\n") {
					if strings.Contains(one, "mysql.(*driver)") {
						return errors.New(one)
					}
				}
				return nil
			})
			if hung {
				server.Continue(t)
			}
			testbed.Eventually(t, patience, "the connections are gone", func() error {
				if n := l.connections(t, l.User.User); n > 0 {
					return fmt.Errorf("%d are left", n)
				}
				return nil
			})
		}
	})
}
