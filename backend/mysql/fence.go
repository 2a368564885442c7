package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-election/go-election/backend"
)

// ErrFenced is why [Fence.Do] has rolled a transaction back: the term is not, or
// no longer, the latest of its election. A newer leader may have been at work.
var ErrFenced = errors.New("fenced: this term is not the latest")

// A Fence runs transactions in the server that keeps the leases, on the user's
// own tables, that commit only if no later term has been granted by then. The
// zero value fits the default tables.
//
// It does what a lease cannot: a process that was stopped for a minute between
// looking at its lease and writing does not write.
//
//	err := mysql.Fence{}.Do(ctx, db, "billing", lead.Term, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET …")
//		return err
//	})
//
// What it cannot do: protect what is not in the same server; and say that the
// lease still runs. After a lease has ended and before the next is granted, the
// last term still passes. If somebody deletes the row of the term, nothing
// passes until the next grant, which writes it again; a renewal does not. To go on
// sooner, resign.
type Fence struct {
	// Schema and Prefix are those of [Options]. The election's tables must be in
	// the server that db of Do writes to; another schema will do.
	Schema, Prefix string

	// Hold bounds how long a client that stops between the fence and COMMIT
	// keeps a successor from being elected: after that the server rolls back and
	// closes the connection. Whole seconds, at least one. Default: 3 s.
	Hold time.Duration
}

const defaultHold = 3 * time.Second

// The fence's statements. LOCK IN SHARE MODE, since FOR SHARE takes no lock on
// MariaDB 10.11 (measured). It locks the term's row, which only grants write, so
// renewals never wait for it.
const (
	limitHoldSQL = `SET @go_election_idle = @@SESSION.wait_timeout, @go_election_lock = @@SESSION.innodb_lock_wait_timeout,
 SESSION wait_timeout = ?, SESSION innodb_lock_wait_timeout = ?`
	fenceSQL         = `SELECT term FROM {term} WHERE name = ? LOCK IN SHARE MODE`
	restoreLimitsSQL = `SET SESSION wait_timeout = @go_election_idle, SESSION innodb_lock_wait_timeout = @go_election_lock`
)

// Do runs f in a transaction on a connection of db and commits it if term is
// still the latest of the election. Otherwise it rolls back, and the error is
// [ErrFenced]. An error of f rolls back and is returned. As with any COMMIT, an
// error of another kind may mean that it is not known whether it was done.
//
// The check is the last statement before COMMIT, and locks: until the commit is
// done, no later term can be granted. f may run for as long as it likes; it must
// not commit or change the session's time limits.
func (f Fence) Do(ctx context.Context, db *sql.DB, election string, term uint64, work func(*sql.Tx) error) (err error) {
	t, err := newTables(f.Schema, f.Prefix)
	if err != nil {
		return err
	}
	if f.Hold == 0 {
		f.Hold = defaultHold
	}
	switch {
	case f.Hold < time.Second || f.Hold%time.Second != 0:
		return fmt.Errorf("mysql: fence: %w: Hold is %v, it must be whole seconds, at least 1s", backend.ErrInvalid, f.Hold)
	case term == 0 || term > math.MaxInt64:
		return fmt.Errorf("mysql: fence: %w: %d is no term of a leader", backend.ErrInvalid, term)
	}
	b := &Backend{tables: t} // for its errors
	what := fmt.Sprintf("fence %q term %d", election, term)
	conn, err := db.Conn(ctx)
	if err != nil {
		return b.fail(what, err)
	}
	bound := false
	defer func() {
		// The connection is not ours: it goes back as it came, or not at all.
		if bound {
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if _, e := conn.ExecContext(short, restoreLimitsSQL); e != nil {
				drop(conn)
			}
		}
		conn.Close()
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return b.fail(what, err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := work(tx); err != nil {
		return err
	}
	seconds := int64(f.Hold / time.Second)
	bound = true
	if _, err := tx.ExecContext(ctx, limitHoldSQL, seconds, seconds); err != nil {
		return b.fail(what, err)
	}
	latest, err := f.latest(ctx, tx, t, election)
	if is(err, errChanged) {
		// MariaDB with innodb_snapshot_isolation: the row is another one than when
		// the transaction began. It is lost; which term it is now, the next may say.
		lost := err
		tx.Rollback()
		if tx, err = conn.BeginTx(ctx, nil); err != nil {
			return b.fail(what, err)
		}
		defer tx.Rollback()
		if latest, err = f.latest(ctx, tx, t, election); err == nil && latest == term {
			return b.fail(what, lost)
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("mysql: %s: %w; the election has none", what, ErrFenced)
	case is(err, rights...):
		who := b.loginOf(ctx, conn, err)
		return fmt.Errorf("mysql: %s: %w: %w%s", what, backend.ErrDenied, err, who.grantHint("SELECT", t.inSchema(who.schema).term))
	case err != nil:
		return b.fail(what, err)
	case latest != term:
		return fmt.Errorf("mysql: %s: %w, which is %d", what, ErrFenced, latest)
	}
	return b.fail(what, tx.Commit())
}

// latest reads the term of an election and locks it.
func (f Fence) latest(ctx context.Context, tx *sql.Tx, t tables, election string) (term uint64, err error) {
	err = tx.QueryRowContext(ctx, newStatements(t, "''").text[fenceSQL], []byte(election)).Scan(&term)
	return term, err
}
