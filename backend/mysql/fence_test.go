package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// longHold is a Hold that no test waits for: a busy machine may stall.
const longHold = time.Minute

// withAccount makes a table of the user's own.
func (l *lab) withAccount(t testing.TB) *lab {
	t.Helper()
	l.Exec(t, "CREATE TABLE account (n INT NOT NULL) ENGINE=InnoDB", "INSERT INTO account VALUES (0)")
	return l
}

// fenced adds one to the account under a term, and does more in the same transaction.
func fenced(t testing.TB, db *sql.DB, term uint64, more func()) error {
	t.Helper()
	return Fence{Hold: longHold}.Do(t.Context(), db, "jobs", term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE account SET n = n + 1")
		more()
		return err
	})
}

// lead writes the record of a leadership.
func lead(t testing.TB, d *driver, term uint64, nonce backend.Nonce) {
	t.Helper()
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: term, Nonce: string(nonce)})
}

// A transaction is committed under the term of the leader only, and the connection is then as it was.
func TestTheFenceCommitsOnlyUnderTheLatestTerm(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, interpolate := range []bool{true, false} {
			l := newLab(t, testbed.Shared(t, k)).withAccount(t)
			d := open(t, Options{Config: l.User})
			db := testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.InterpolateParams = interpolate }))
			db.SetMaxOpenConns(1)
			want := func(what string, term uint64, class error) {
				t.Helper()
				if err := fenced(t, db, term, func() {}); !errors.Is(err, class) || class == nil && err != nil {
					t.Errorf("interpolateParams=%v: %s: %v, want %v", interpolate, what, err, class)
				}
			}
			want("an election without a record", 7, ErrFenced)
			want("term 0", 0, backend.ErrInvalid)
			lead(t, d, 7, "n")
			want("the leader's term", 7, nil)
			want("a later term", 8, ErrFenced)
			lead(t, d, 8, "m")
			want("a former term", 7, ErrFenced)
			want("the new term", 8, nil)
			lead(t, d, 8, "")
			want("a vacant election", 8, ErrFenced)
			lead(t, d, 9, "n")
			oops := errors.New("oops")
			err := Fence{Hold: longHold}.Do(t.Context(), db, "jobs", 9, func(tx *sql.Tx) error {
				tx.ExecContext(t.Context(), "UPDATE account SET n = 99")
				return oops
			})
			if n := l.number(t, "SELECT n FROM account"); !errors.Is(err, oops) || n != 2 {
				t.Errorf("after an error of the work: %v, and %d transactions were committed, want 2", err, n)
			}
			other := Fence{Prefix: "other", Hold: longHold}
			if err := other.Do(t.Context(), db, "jobs", 9, func(*sql.Tx) error { return nil }); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("a prefix without a table: %v, want ErrDenied", err)
			}
			l.withTable(t, "other")
			if err := other.Do(t.Context(), db, "jobs", 9, func(*sql.Tx) error { return nil }); !errors.Is(err, ErrFenced) {
				t.Errorf("a prefix without this leader: %v, want ErrFenced", err)
			}
			var idle, locks int
			testbed.NoError(t, db.QueryRow("SELECT @@SESSION.wait_timeout, @@SESSION.innodb_lock_wait_timeout").Scan(&idle, &locks))
			if idle == int(longHold/time.Second) || locks == int(longHold/time.Second) {
				t.Errorf("the user's connection is left with wait_timeout %d and innodb_lock_wait_timeout %d", idle, locks)
			}
		}
	})
}

func TestBadFencesAreInvalid(t *testing.T) {
	for what, f := range map[string]Fence{"hold": {Hold: time.Millisecond}, "fraction": {Hold: 1500 * time.Millisecond}, "schema": {Schema: "a\nb"}, "prefix": {Prefix: "`"}} {
		if err := f.Do(t.Context(), nil, "jobs", 1, nil); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("a bad %s: %v", what, err)
		}
	}
}

// While a fenced row is locked, the session is renewed, other elections are granted, and nobody else is elected in this one.
func TestAFenceDelaysOnlyItsOwnElection(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		d := open(t, Options{Config: l.User})
		session := lease.Item{Key: lease.Key{Kind: lease.Sessions, Name: "n"}}
		lead(t, d, 7, "n")
		v := drivertest.Read(t, d, recordKey("jobs"), session.Key)
		unlock := l.lock(t, "SELECT value FROM election_item WHERE kind = 'record' AND name = 'jobs' LOCK IN SHARE MODE")
		defer unlock()
		for what, check := range map[string][]lease.Item{"verifies": nil, "checks": v.Items[:1]} { // the latter, while they are few
			renewal := lease.Change{Check: check, Put: []lease.Put{{Over: v.Items[1], Value: &lease.Session{Nonce: "n"}}}}
			w, err := d.Write(t.Context(), v.Epoch, 0, []lease.Change{renewal}, v.Items[:1])
			if err != nil || w.Results[0].Outcome != backend.Granted || len(w.Stale) > 0 {
				t.Errorf("a renewal that %s the record beside a fence: %+v, %v", what, w, err)
				continue
			}
			v.Items[1] = w.Results[0].Items[0]
		}
		results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 8, Nonce: "m"}, &lease.Record{Election: "other", Term: 1, Nonce: "m"})
		if err != nil || !errors.Is(results[0].Err, backend.ErrUnavailable) || results[1].Outcome != backend.Granted {
			t.Errorf("grants beside a fence: %+v, %v; want the fenced one unavailable, the other one granted", results, err)
		}
		unlock()
		lead(t, d, 8, "m")
	})
}

// A fence asks for SELECT on one table only, and says so.
func TestAFenceNeedsSelectOnly(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.Exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
		db := testbed.OpenDB(t, l.account(t, "f", "127.0.0._", "SELECT ON "+l.Name+".other"))
		lead(t, open(t, Options{Config: l.User}), 1, "n")
		work := func() error {
			return Fence{Hold: longHold}.Do(t.Context(), db, "jobs", 1, func(*sql.Tx) error { return nil })
		}
		l.paste(t, work())
		if err := work(); err != nil {
			t.Errorf("once it was pasted: %v", err)
		}
	})
}

// MariaDB 11.6 has innodb_snapshot_isolation on: the fence then fails with error 1020 and asks again.
func TestTheFenceWorksUnderSnapshotIsolation(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.Shared(t, testbed.MariaDB)).withAccount(t)
	d := open(t, Options{Config: l.User})
	lead(t, d, 1, "n")
	db := testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.Params = map[string]string{"innodb_snapshot_isolation": "1"} }))
	if err := fenced(t, db, 1, func() { lead(t, d, 2, "m") }); !errors.Is(err, ErrFenced) || l.number(t, "SELECT n FROM account") != 0 {
		t.Errorf("a later term was granted during the transaction: %v; want ErrFenced and nothing written", err)
	}
	if err := fenced(t, db, 2, func() {}); err != nil {
		t.Errorf("the fence with the new term, on the same connection: %v", err)
	}
}

// A transaction whose connection breaks ends with an error, also if its context has no end.
func TestAFenceEndsWithItsConnection(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.withAccount(t)
		lead(t, open(t, Options{Config: l.User}), 1, "n")
		ended := make(chan error, 1)
		go func() { ended <- fenced(t, testbed.OpenDB(t, l.User), 1, func() { l.Disconnect(t) }) }()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a transaction without a connection was committed")
			}
		case <-time.After(patience):
			t.Error("it never ends")
		}
	})
}

// A client that is stopped just before COMMIT loses its transaction after Hold, and then a successor is elected.
func TestAClientStoppedBeforeCommitIsRolledBack(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		const hold = 2 * time.Second
		l := newLab(t, testbed.Shared(t, k)).withAccount(t)
		d := open(t, Options{Config: l.User})
		lead(t, d, 1, "n")
		v := drivertest.Read(t, d, recordKey("jobs"))
		proxy := testbed.NewProxy(t, l.User.Addr)
		trap, db := proxy.Trap("COMMIT", testbed.HoldRequest), testbed.OpenDB(t, proxy.Config(l.User))
		ended := make(chan error)
		go func() {
			ended <- Fence{Hold: hold}.Do(t.Context(), db, "jobs", 1, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE account SET n = n + 1")
				return err
			})
		}()
		trap.Wait(t, patience)
		began := time.Now()
		testbed.Eventually(t, patience, "a successor is elected", func() error {
			results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2, Nonce: "m"})
			if err == nil && results[0].Outcome != backend.Granted {
				err = fmt.Errorf("%+v", results)
			}
			return err
		})
		if took := time.Since(began); took < hold-time.Second { // the server counts whole seconds
			t.Errorf("a successor after %v, while the transaction was open: the fence does not hold", took)
		}
		trap.Release()
		if err := <-ended; err == nil {
			t.Error("COMMIT succeeded after the client had been stopped")
		}
		if n := l.number(t, "SELECT n FROM account"); n != 0 {
			t.Error("the stopped client's transaction was committed under a former term")
		}
	})
}
