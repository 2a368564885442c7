package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// fenced adds one to the account under a term. Its Hold is long, since a busy machine may stall.
func (l *lab) fenced(t testing.TB, db *sql.DB, term uint64) error {
	t.Helper()
	return l.fencedFor(t, db, term, callLimit)
}

func (l *lab) fencedFor(t testing.TB, db *sql.DB, term uint64, hold time.Duration) error {
	t.Helper()
	return Fence{Hold: hold}.Do(t.Context(), db, "a", term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE account SET n = n + 1")
		return err
	})
}

func (l *lab) createAccount(t testing.TB) {
	t.Helper()
	l.exec(t, "CREATE TABLE account (n INT NOT NULL) ENGINE=InnoDB", "INSERT INTO account VALUES (0)")
}

func TestTheFenceCommitsOnlyUnderTheLatestTerm(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, interpolate := range []bool{true, false} {
			t.Run(fmt.Sprint("interpolateParams=", interpolate), func(t *testing.T) {
				l := newLab(t, k)
				l.createAccount(t)
				db := testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.InterpolateParams = interpolate }))
				db.SetMaxOpenConns(1)
				if err := l.fenced(t, db, 7); !errors.Is(err, ErrFenced) {
					t.Errorf("the fence of an unknown election: %v, want ErrFenced", err)
				}
				if err := l.fenced(t, db, 0); !errors.Is(err, backend.ErrInvalid) {
					t.Errorf("the fence with term 0: %v, want ErrInvalid", err)
				}
				n := l.node(t, "a")
				first := n.lead("a", time.Second)
				if err := l.fenced(t, db, first.Term); err != nil {
					t.Errorf("the fence with the leader's term: %v", err)
				}
				n.mustRenew(first)
				if err := l.fenced(t, db, first.Term); err != nil {
					t.Errorf("a renewal must not affect the fence: %v", err)
				}
				second := n.lead("a", time.Second)
				if err := l.fenced(t, db, first.Term); !errors.Is(err, ErrFenced) {
					t.Errorf("the fence with an earlier term: %v, want ErrFenced", err)
				}
				if err := l.fenced(t, db, second.Term); err != nil {
					t.Errorf("the fence with the new term: %v", err)
				}
				if n := l.number(t, "SELECT n FROM account"); n != 3 {
					t.Errorf("%d transactions were committed, want 3", n)
				}
				oops := errors.New("oops")
				err := Fence{Hold: callLimit}.Do(t.Context(), db, "a", second.Term, func(tx *sql.Tx) error {
					tx.ExecContext(t.Context(), "UPDATE account SET n = 99")
					return oops
				})
				if !errors.Is(err, oops) || l.number(t, "SELECT n FROM account") != 3 {
					t.Errorf("an error of the work must roll back and be returned: %v", err)
				}
				var idle, locks int
				if err := db.QueryRow("SELECT @@SESSION.wait_timeout, @@SESSION.innodb_lock_wait_timeout").Scan(&idle, &locks); err != nil {
					t.Fatal(err)
				}
				if idle < 100 || locks == 1 {
					t.Errorf("after the fence the user's connection has wait_timeout %d and innodb_lock_wait_timeout %d; both must be restored", idle, locks)
				}
			})
		}
	})
}

func TestAFenceDelaysOnlyItsOwnElection(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "a")
		a, b := n.lead("a", time.Second), n.lead("b", time.Second)
		unlock := l.lock(t, "SELECT term FROM election_term WHERE name = 'a' LOCK IN SHARE MODE")
		n.mustRenew(a)
		n.mustRenew(b)
		quick(t, 500*time.Millisecond, "a batch with a locked row, for which it must not wait,", func() time.Duration {
			bids := []backend.Bid{
				{Election: "a", Candidate: n.me, TTL: time.Second, Renew: time.Second / 3, Expected: n.observe("a")},
				{Election: "b", Candidate: n.me, TTL: time.Second, Renew: time.Second / 3, Expected: n.observe("b")},
			}
			began := time.Now()
			answers, err := n.Acquire(t.Context(), bids)
			took := time.Since(began)
			if err != nil || answers[0].Outcome != backend.Unknown || answers[0].Err == nil || answers[1].Outcome != backend.Granted {
				t.Errorf("a batch with one fenced election: %v %+v; want the fenced one unknown and the other granted", err, answers)
			}
			return took
		})
		unlock()
		n.lead("a", time.Second)
	})
}

func TestADeletedTermFencesAllUntilTheNextGrant(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.createAccount(t)
		db := testbed.OpenDB(t, l.User)
		n := l.node(t, "n")
		held := n.lead("a", time.Second)
		l.exec(t, "DELETE FROM election_term WHERE name = 'a'")
		n.mustRenew(held)
		if err := l.fenced(t, db, held.Term); !errors.Is(err, ErrFenced) {
			t.Errorf("the fence without a term to compare with: %v, want ErrFenced", err)
		}
		if err := n.release(held, backend.Released); err != nil {
			t.Fatal(err)
		}
		next := n.lead("a", time.Second)
		if err := l.fenced(t, db, next.Term); err != nil || next.Term <= held.Term {
			t.Errorf("after the next grant, term %d after %d: %v", next.Term, held.Term, err)
		}
		if err := l.fenced(t, db, held.Term); !errors.Is(err, ErrFenced) {
			t.Errorf("the term before: %v, want ErrFenced", err)
		}
	})
}

// MariaDB 11.6 has innodb_snapshot_isolation on: the fence then fails with error 1020 and asks
// again.
func TestTheFenceWorksUnderSnapshotIsolation(t *testing.T) {
	l := newLab(t, testbed.MariaDB)
	l.createAccount(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("a", time.Second)
	db := testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.Params = map[string]string{"innodb_snapshot_isolation": "1"} }))
	err := Fence{Hold: callLimit}.Do(t.Context(), db, "a", held.Term, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRow("SELECT n FROM account").Scan(&n); err != nil { // this takes the snapshot
			return err
		}
		if _, err := tx.ExecContext(t.Context(), "UPDATE account SET n = n + 1"); err != nil {
			return err
		}
		b.lead("a", time.Second)
		return nil
	})
	if !errors.Is(err, ErrFenced) || l.number(t, "SELECT n FROM account") != 0 {
		t.Errorf("a later term was granted during the transaction: %v; want ErrFenced and nothing written", err)
	}
	if err := l.fenced(t, db, b.observe("a").Term); err != nil {
		t.Errorf("the fence with the new term, on the same connection: %v", err)
	}
}
