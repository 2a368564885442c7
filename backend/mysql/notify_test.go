package mysql

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// untilWaiting waits until n connections wait for a notification.
func (l *lab) untilWaiting(t testing.TB, n int) {
	t.Helper()
	testbed.Eventually(t, patience, "followers wait", func() error {
		if got := len(l.waiters(t)); got != n {
			return fmt.Errorf("%d do, want %d", got, n)
		}
		return nil
	})
}

// waiters returns the connections that wait.
func (l *lab) waiters(t testing.TB) (ids []int64) {
	t.Helper()
	rows, err := l.admin.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND (INFO LIKE 'SELECT ''go-election:%' OR INFO LIKE 'SELECT GET_LOCK(%')", l.Name)
	testbed.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		testbed.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

// connections returns how many an account has.
func (l *lab) connections(t testing.TB, user string) int64 {
	t.Helper()
	return l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", user)
}

// Who says that something has changed waits again already: the next change may follow at once.
func TestNoChangeFallsBetweenTwoStatements(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		leader := open(t, Options{Config: l.User})
		heard := drivertest.Listen(t, open(t, Options{Config: l.User}))
		l.untilWaiting(t, 1)
		heard.Calm()
		for range 50 {
			drivertest.Notify(t, leader)
			heard.Told(t, "a change")
			if n := len(l.waiters(t)); n != 1 {
				t.Fatalf("%d wait, want 1", n)
			}
		}
	})
}

// A change wakes all that wait for one. One whose connection is killed says that something may have changed,
// and then waits again. Whoever has another account is not woken, and polls.
func TestAChangeWakesWhoeverWaits(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		leader, stranger := open(t, Options{Config: l.User}), open(t, Options{Config: l.AddUser(t)})
		named := Options{Config: clone(l.User, func(c *mysql.Config) { c.DBName = "" }), Schema: l.Name}
		one, two, far := drivertest.Listen(t, open(t, Options{Config: l.User})), drivertest.Listen(t, open(t, named)), drivertest.Listen(t, stranger)
		for range 2 {
			l.untilWaiting(t, 3)
			one.Calm()
			two.Calm()
			far.Calm()
			drivertest.Notify(t, leader)
			one.Told(t, "a change")
			two.Told(t, "a change, by an option with the schema")
			far.NotTold(t, "the account of one may end statements of another")
			l.untilWaiting(t, 3)
			for _, id := range l.waiters(t) {
				l.Exec(t, fmt.Sprint("KILL ", id))
			}
			one.Told(t, "its end")
		}
	})
}

// A name or a proxy may lead the connection that waits to another server than those of the calls. It would hear of nothing
// there, so it is replaced.
func TestAConnectionThatWaitsElsewhereIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		other := testbed.Start(t, l.kind, testbed.Options{})
		name := fmt.Sprintf("'%s'@'127.0.0.1'", l.User.User)
		other.Exec(t, "CREATE DATABASE "+l.Name, fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", name, l.User.Passwd),
			fmt.Sprintf("GRANT ALL ON %s.* TO %s", l.Name, name))
		proxy := testbed.NewProxy(t, l.User.Addr)
		d := open(t, Options{Config: proxy.Config(l.User)})
		drivertest.Read(t, d)

		proxy.SetTarget(other.Addr())
		calls := proxy.Accepted()
		heard := drivertest.Listen(t, d)
		testbed.Eventually(t, patience, "a connection waits", func() error {
			if proxy.Accepted() == calls {
				return errors.New("none does")
			}
			return nil
		})
		proxy.SetTarget(l.User.Addr)
		l.untilWaiting(t, 1)
		heard.Calm()
		drivertest.Notify(t, open(t, Options{Config: l.User}))
		heard.Told(t, "a change")
	})
}

// A time limit for statements, of the server or a session, wakes nobody. The server's log of slow statements has none that waits.
func TestListeningOutlivesAStatementTimeLimit(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		limit := map[testbed.Kind]map[string]string{testbed.MariaDB: {"max_statement_time": "0.2"}, testbed.MySQL: {"max_execution_time": "200"}}[k]
		l := newLab(t, testbed.Start(t, k, testbed.Options{Args: []string{"--slow-query-log=ON", "--long-query-time=1", "--log-output=TABLE"}}))
		heard := drivertest.Listen(t, open(t, Options{Config: clone(l.User, func(c *mysql.Config) { c.Params = limit })}))
		l.untilWaiting(t, 1)
		heard.Calm()
		heard.NotTold(t, "a limit of 200 ms ends what waits")
		<-time.After(waitSeconds * time.Second)
		if n := l.number(t, "SELECT COUNT(*) FROM mysql.slow_log WHERE CONVERT(sql_text USING utf8mb4) LIKE '%GET_LOCK%'"); n > 0 {
			t.Errorf("%d waits are logged as slow statements", n)
		}
	})
}

// Close returns soon, also beside a server that hangs, and leaves no goroutine and no connection.
func TestCloseLeavesNothing(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Start(t, k, testbed.Options{})
		l := newLab(t, server)
		for _, hung := range []bool{false, true} {
			d := open(t, Options{Config: l.User})
			heard := make(chan error, 1)
			position := drivertest.Read(t, d).Position
			go func() {
				heard <- d.Listen(t.Context(), position, nil, func([]lease.Item, uint64) bool { return true })
			}()
			l.untilWaiting(t, 1)
			if hung {
				server.Stop(t)
			}
			began := time.Now()
			err := errors.Join(d.Close(), d.Close())
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
