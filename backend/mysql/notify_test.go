package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// waiting returns how many sessions of the database wait for a notification lock, by their
// state. Their statement would not do: it stays in the list for a moment after its reply.
func (l *lab) waiting(t testing.TB) int64 {
	t.Helper()
	return l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND STATE = 'User lock'", l.Name)
}

func (l *lab) untilWaiting(t testing.TB, n int64) {
	t.Helper()
	testbed.Eventually(t, callLimit, "followers wait for the notification lock", func() error {
		if l.waiting(t) < n {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestAReleaseNotifiesFollowers(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		leader := l.node(t, "leader")
		held := leader.lead("a", 10*time.Second)
		other := leader.lead("b", 10*time.Second)
		var late []time.Duration
		for round := range 20 {
			var all sync.WaitGroup
			var released time.Time
			notified := make(chan time.Time, 3)
			for range 3 {
				follower := l.node(t, "follower")
				seen := []backend.Lease{follower.observe("a"), follower.observe("b")}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), callLimit)
					defer cancel()
					if err := follower.Listen(ctx, seen); err != nil {
						t.Errorf("Listen: %v, want nil after a notification", err)
					}
					notified <- time.Now()
					follower.Close()
				})
			}
			l.untilWaiting(t, 3)
			released = time.Now()
			if err := leader.release(held, backend.Released); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			close(notified)
			for at := range notified {
				late = append(late, at.Sub(released))
			}
			if round%2 == 0 {
				held = leader.lead("a", 10*time.Second)
			} else {
				held = leader.lead("c", 10*time.Second)
			}
			leader.mustRenew(other)
		}
		slices.Sort(late)
		t.Logf("from the call of Release to the return of Listen: median %v, worst %v", late[len(late)/2], late[len(late)-1])
		if late[0] > 50*time.Millisecond || late[len(late)/2] > 2*time.Second { // on a busy machine
			t.Errorf("the best is %v and the median %v; a notification takes milliseconds", late[0], late[len(late)/2])
		}
		l.noNotifyLocksLeft(t)
	})
}

// notifyLimit is less than the time that GET_LOCK waits, and long for a busy machine.
const notifyLimit = notifyWait * time.Second * 4 / 5

func (l *lab) noNotifyLocksLeft(t testing.TB) {
	t.Helper()
	testbed.Eventually(t, notifyLimit, "no session waits for a notification lock", func() error {
		if l.waiting(t) > 0 {
			return errors.New("a GET_LOCK is still running in the server")
		}
		return nil
	})
}

func TestListenEndsSoonAndLeavesNoStatementInTheServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		leader, follower := l.node(t, "leader"), l.node(t, "follower")
		leader.lead("a", 10*time.Second)
		seen := []backend.Lease{follower.observe("a")}
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- follower.Listen(ctx, seen) }()
			l.untilWaiting(t, 1)
			began := time.Now()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Listen with an ended context: %v, want its error", err)
			}
			if took := time.Since(began); took > notifyLimit {
				t.Errorf("Listen returned %v after its context had ended", took)
			}
			l.noNotifyLocksLeft(t)
		}
		if n := l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ?", l.Name); n > 2+maxConns+2 {
			t.Errorf("%d connections after five Listens; they should be reused", n)
		}
	})
}

func TestListenKillsNothingOnAnotherServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		one, two := testbed.Start(t, testbed.Options{Kind: k}), testbed.Start(t, testbed.Options{Kind: k})
		l := newLabOn(t, one)
		two.Exec(t, "CREATE DATABASE "+l.Name, fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s'", l.User.User, l.User.Passwd),
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'127.0.0.1'", l.Name, l.User.User))
		// upTo opens connections until the server has reached a connection number.
		upTo := func(s *testbed.Server, number int64) *sql.Conn {
			proxy := s.Proxy(t)
			for range 1000 {
				conn, err := testbed.OpenDB(t, proxy.Config(l.User)).Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var id int64
				if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
					t.Fatal(err)
				}
				if id >= number {
					return conn
				}
				conn.Close()
			}
			t.Fatal("the number was not reached")
			return nil
		}
		number := func(conn *sql.Conn) (id int64) {
			if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			return id
		}
		upTo(one, number(upTo(two, 0))+20)

		proxy := one.Proxy(t)
		leader, follower := l.node(t, "leader"), openNode(t, "follower", Options{Config: proxy.Config(l.User)})
		leader.lead("a", 10*time.Second)
		seen := []backend.Lease{follower.observe("a")}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- follower.Listen(ctx, seen) }()
		l.untilWaiting(t, 1)
		id := l.number(t, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND STATE = 'User lock'", l.Name)
		innocent := upTo(two, id)
		if got := number(innocent); got != id {
			t.Fatalf("session %d on the other server, want %d", got, id)
		}
		slept := make(chan int, 1)
		go func() {
			interrupted := -1
			innocent.QueryRowContext(t.Context(), "SELECT SLEEP(10)").Scan(&interrupted)
			slept <- interrupted
		}()
		testbed.Eventually(t, callLimit, "it sleeps", func() error {
			var n int
			if err := two.Admin().QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'").Scan(&n); err != nil || n == 0 {
				return errors.Join(err, errors.New("not yet"))
			}
			return nil
		})
		proxy.SetTarget(two.Addr()) // for new connections
		follower.closeIdleConns()
		began := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen: %v", err)
		}
		if took := time.Since(began); took > notifyLimit {
			t.Errorf("Listen returned after %v", took)
		}
		if interrupted := <-slept; interrupted != 0 {
			t.Errorf("another session with the same number on another server was interrupted: SLEEP returned %d", interrupted)
		}
	})
}

func TestABrokenLeaderNotifiesFollowers(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		leader, follower := l.node(t, "leader"), l.node(t, "follower")
		leader.lead("a", 10*time.Second)
		seen := []backend.Lease{follower.observe("a")}
		ended := make(chan error)
		go func() { ended <- follower.Listen(t.Context(), seen) }()
		l.untilWaiting(t, 1)
		leader.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(callLimit):
			t.Error("Listen did not return when the leader's connections closed")
		}
	})
}

func TestListenSurvivesAStatementTimeLimit(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		if k == testbed.MariaDB {
			l.exec(t, "SET GLOBAL max_statement_time = 0.2")
		} else {
			l.exec(t, "SET GLOBAL max_execution_time = 200")
		}
		leader, follower := l.node(t, "leader"), l.node(t, "follower")
		leader.lead("a", 10*time.Second)
		seen := []backend.Lease{follower.observe("a")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := follower.Listen(ctx, seen); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Listen with a time limit of 200 ms in the server: %v; it should wait until its context ends", err)
		}
	})
}

func TestOneBackendKeepsToItsConnections(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		follower := l.node(t, "follower")
		var seen []backend.Lease
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			l.node(t, id).lead(id, 10*time.Second)
			seen = append(seen, follower.observe(id))
		}
		follower.lead("own", 10*time.Second) // takes its own notification lock
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls sync.WaitGroup
		defer calls.Wait()
		defer cancel()
		calls.Go(func() { follower.Listen(ctx, seen) })
		l.untilWaiting(t, 4)
		for range 8 {
			calls.Go(func() {
				for range 20 {
					follower.tryObserve("a")
				}
			})
		}
		if n := follower.db.Stats().OpenConnections + follower.notifyConns.Stats().OpenConnections; n > 7 {
			t.Errorf("%d connections, want at most 3 and 4 for other leaders' notification locks", n)
		}
		testbed.Eventually(t, callLimit, "it listens to four leaders, by default, and polls the others", func() error {
			n := l.waiting(t)
			if n > 4 {
				t.Errorf("it listens to %d", n)
			}
			if n != 4 { // between two statements
				return fmt.Errorf("it listens to %d", n)
			}
			return nil
		})
	})
}

func TestWithoutNotifyConnsThereIsNoPush(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := openNode(t, "quiet", Options{Config: l.User, NotifyConns: -1})
		if g := n.Guarantees(); g.Push || !g.Poll {
			t.Errorf("without connections for notifications: Push %v, Poll %v; want false and true", g.Push, g.Poll)
		}
		n.lead("a", 10*time.Second)
	})
}

// A leader may have no notification lock: its program wants none, or could not get a connection
// for it. Followers poll that leader, and still get notifications from other leaders.
func TestALeaderWithoutANotificationLockIsPolled(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		mute, leader, follower := openNode(t, "mute", Options{Config: l.User, NotifyConns: -1}), l.node(t, "leader"), l.node(t, "follower")
		mute.lead("a", 10*time.Second)
		held := leader.lead("b", 10*time.Second)
		listen := func(seen ...backend.Lease) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- follower.Listen(t.Context(), seen) }()
			return ended
		}
		returns := func(what string, ended <-chan error) {
			t.Helper()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			case <-time.After(callLimit):
				t.Fatalf("%s: Listen does not return", what)
			}
		}
		both := []backend.Lease{follower.observe("a"), follower.observe("b")}
		returns("a leader without a lock may just have sent a notification", listen(both...))
		ended := listen(both...)
		l.untilWaiting(t, 1)
		select {
		case err := <-ended:
			t.Fatalf("Listen returned a second time because a leader has no lock: %v", err)
		case <-time.After(2 * notifyCallTimeout):
		}
		if err := leader.release(held, backend.Released); err != nil {
			t.Fatal(err)
		}
		returns("the other leader sends a notification", ended)

		ended = listen(both[0])
		conn, err := follower.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		lock := follower.notifyLockName(mute.owner.Nonce())
		if n, err := follower.queryNumber(t.Context(), conn, takeLockSQL, lock); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		l.untilWaiting(t, 1)
		if _, err := follower.queryNumber(t.Context(), conn, releaseLockSQL, lock); err != nil {
			t.Fatal(err)
		}
		returns("a leader that has a lock by now sends a notification", ended)
	})
}

func TestListenAwaitsTheFirstLeaders(t *testing.T) {
	b := &Backend{notifier: notifier{maxLeaders: 2}}
	if err := b.enter("me"); err != nil {
		t.Fatal(err)
	}
	held := func(nonces ...backend.Nonce) (seen []backend.Lease) {
		for _, n := range nonces {
			seen = append(seen, backend.Lease{Holder: backend.Candidate{Nonce: n}})
		}
		return seen
	}
	for _, c := range []struct {
		seen []backend.Lease
		want []backend.Nonce
	}{
		{held("", "me"), nil},
		{held("z", "a", "", "b"), []backend.Nonce{"z", "a"}}, // in the order of seen
		{held("a", "a", "b", "c"), []backend.Nonce{"a", "b"}},
	} {
		if got := b.leadersToAwait(c.seen); !slices.Equal(got, c.want) {
			t.Errorf("leaders %q, want %q", got, c.want)
		}
	}
}

func TestNotificationsDoNotDependOnTheSchemasName(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		held := l.node(t, "leader").lead("a", 10*time.Second)
		follower := openNode(t, "follower", Options{Config: l.User, Schema: l.Name})
		ctx, cancel := follower.ctx()
		defer cancel()
		heard := make(chan error)
		go func() { heard <- follower.Listen(ctx, []backend.Lease{held}) }()
		l.untilWaiting(t, 1)
		cancel()
		if err := <-heard; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen: %v; want the end of its context", err)
		}
	})
}
