package testbed

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

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

func TestKillTerminateAndStartAgain(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, k, Options{})
		d := s.Database(t)
		newTable(t, d)
		user := OpenDB(t, d.User)
		identity := "SELECT CONCAT_WS(':', @@server_id, @@hostname, @@port, @@server_uid)"
		if k == MySQL {
			identity = "SELECT @@server_uuid"
		}
		before := mustAsk[string](t, s.Admin(), identity)
		for i, end := range []func(testing.TB){s.Kill, s.Terminate} {
			NoError(t, write(user, patience, i))
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

func TestStopMakesAPingTimeOut(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, k, Options{})
		user := OpenDB(t, s.Database(t).User)
		mustAsk[int](t, user, "SELECT 1")
		s.Stop(t)
		if _, err := ask[int](user, impatient, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stopped server: %v, want a deadline exceeded", err)
		}
		s.Continue(t)
		mustAsk[int](t, user, "SELECT 1")
		s.Stop(t) // the cleanup must be able to kill a stopped server
	})
}

func TestStepMovesTheClockOfARunningServer(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		s := Start(t, k, Options{Clock: true})
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
