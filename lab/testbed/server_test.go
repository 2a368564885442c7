package testbed

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// impatient is how long a test waits before it concludes that a query stays unanswered.
const impatient = 300 * time.Millisecond

// ask runs a query that returns one value, and gives up after limit.
func ask[T any](db *sql.DB, limit time.Duration, query string, args ...any) (value T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err = db.QueryRowContext(ctx, query, args...).Scan(&value)
	return value, err
}

// mustAsk is ask for a healthy server.
func mustAsk[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	value, err := ask[T](db, patience, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// write adds a row to the table that newTable made.
func write(db *sql.DB, limit time.Duration, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := db.ExecContext(ctx, "INSERT INTO notes VALUES (?)", n)
	return err
}

func newTable(t *testing.T, d *Database) {
	t.Helper()
	d.Exec(t, "CREATE TABLE notes (n INT PRIMARY KEY)")
}

// isServerError reports whether the server returned this error number.
func isServerError(err error, number uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == number
}

func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func TestDatabasesAndUsersAreIsolated(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		s := Shared(t, k)
		a, b := s.Database(t), s.Database(t)
		newTable(t, a)
		newTable(t, b)
		user := OpenDB(t, a.User)
		if err := write(user, patience, 1); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"CREATE TABLE other (n INT)",
			"DROP TABLE notes",
			"SELECT * FROM " + b.Name + ".notes",
			"SET GLOBAL read_only = ON",
		} {
			if _, err := user.ExecContext(t.Context(), statement); err == nil {
				t.Errorf("an ordinary user was allowed to: %s", statement)
			}
		}
		if n := mustAsk[int](t, OpenDB(t, b.Admin), "SELECT COUNT(*) FROM notes"); n != 0 {
			t.Errorf("the other database has %d rows, want 0", n)
		}
	})
}

// Other packages' tests rely on the default durability and on a time zone with summer time.
func TestServerKeepsDefaultsThatMatter(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		db := Shared(t, k).Admin()
		for query, want := range map[string]string{
			"SELECT @@innodb_flush_log_at_trx_commit":                                       "1",
			"SELECT CONVERT_TZ('2025-07-01 12:00:00', '+00:00', 'Europe/Berlin')":           "2025-07-01 14:00:00",
			"SELECT CONVERT_TZ('2025-12-01 12:00:00', '+00:00', 'Europe/Berlin')":           "2025-12-01 13:00:00",
			"SELECT FROM_UNIXTIME(1761440399) = '2025-10-26 02:59:59' FROM (SELECT 1) AS x": "1",
		} {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), "SET time_zone = 'Europe/Berlin'"); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q, %v; want %q", query, got, err, want)
			}
			if _, err := conn.ExecContext(t.Context(), "SET time_zone = DEFAULT"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
	})
}

func TestKillTerminateAndStartAgain(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, Options{Kind: k})
		d := s.Database(t)
		newTable(t, d)
		user := OpenDB(t, d.User)
		identity := "SELECT CONCAT_WS(':', @@server_id, @@hostname, @@port, @@server_uid)"
		if k == MySQL {
			identity = "SELECT @@server_uuid"
		}
		before := mustAsk[string](t, s.Admin(), identity)
		for i, end := range []func(testing.TB){s.Kill, s.Terminate} {
			if err := write(user, patience, i); err != nil {
				t.Fatal(err)
			}
			end(t)
			if err := user.PingContext(t.Context()); err == nil {
				t.Fatal("a server that has ended answers")
			}
			s.Start(t)
			if n := mustAsk[int](t, user, "SELECT COUNT(*) FROM notes"); n != i+1 {
				t.Fatalf("%d rows after the restart, want %d", n, i+1)
			}
		}
		if after := mustAsk[string](t, s.Admin(), identity); after != before {
			t.Errorf("a restart changed the identity from %s to %s", before, after)
		}
	})
}

func TestTwoServersDiffer(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		identity := "SELECT CONCAT_WS(':', @@server_id, @@port)"
		if k == MySQL {
			identity = "SELECT @@server_uuid"
		}
		one := mustAsk[string](t, Shared(t, k).Admin(), identity)
		two := mustAsk[string](t, Start(t, Options{Kind: k}).Admin(), identity)
		if one == two {
			t.Errorf("both servers are %s", one)
		}
	})
}

func TestStopMakesAPingTimeOut(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, Options{Kind: k})
		user := OpenDB(t, s.Database(t).User)
		mustAsk[int](t, user, "SELECT 1")
		s.Stop(t)
		if _, err := ask[int](user, impatient, "SELECT 1"); !timedOut(err) {
			t.Errorf("a stopped server: %v, want a deadline exceeded", err)
		}
		s.Continue(t)
		mustAsk[int](t, user, "SELECT 1")
		s.Stop(t) // the cleanup must be able to kill a stopped server
	})
}

func TestReadOnlyRefusesOrdinaryWrites(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, Options{Kind: k})
		d := s.Database(t)
		newTable(t, d)
		user := OpenDB(t, d.User)
		s.ReadOnly(t, true)
		if err := write(user, patience, 1); !isServerError(err, 1290) {
			t.Errorf("write to a read-only server: %v, want error 1290", err)
		}
		s.ReadOnly(t, false)
		if err := write(user, patience, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestStepMovesTheClockOfARunningServer(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, Options{Kind: k, Clock: true})
		off := func() time.Duration {
			t.Helper()
			micros := mustAsk[int64](t, s.Admin(), "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
			return time.Until(time.UnixMicro(micros)).Round(time.Minute)
		}
		if off() != 0 {
			t.Fatalf("the clock is off by %v before any step", off())
		}
		s.Step(t, time.Hour)
		if off() != time.Hour {
			t.Errorf("after a step of +1h the clock is off by %v", off())
		}
		s.Step(t, -3*time.Hour)
		if off() != -2*time.Hour {
			t.Errorf("after steps of +1h and -3h the clock is off by %v", off())
		}
		// Waits use the monotonic clock, which Step leaves alone.
		began := time.Now()
		if got := mustAsk[int](t, s.Admin(), "SELECT SLEEP(0.2)"); got != 0 || time.Since(began) > patience {
			t.Errorf("SLEEP(0.2) = %d after %v", got, time.Since(began))
		}
	})
}

func TestTLSWithAnOwnAuthority(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, Options{Kind: k, TLS: true, Args: []string{"--require-secure-transport=ON"}})
		d := s.Database(t)
		c := d.User.Clone()
		c.TLS = nil
		if err := OpenDB(t, c).PingContext(t.Context()); err == nil {
			t.Error("connected without TLS")
		}
		c.TLS = s.TLSConfig()
		cipher := mustAsk[string](t, OpenDB(t, c), "SELECT VARIABLE_VALUE FROM "+statusTable(k)+" WHERE VARIABLE_NAME = 'Ssl_cipher'")
		if cipher == "" {
			t.Error("connected, but without TLS")
		}
		c.TLS = Start(t, Options{Kind: k, TLS: true}).TLSConfig()
		if err := OpenDB(t, c).PingContext(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("with another authority: %v, want an error about the certificate", err)
		}
	})
}

func statusTable(k Kind) string {
	if k == MySQL {
		return "performance_schema.session_status"
	}
	return "information_schema.session_status"
}
