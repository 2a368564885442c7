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

// ErrFenced is the error of [Fence.Do] after it has rolled a transaction back because the
// term is not, or no longer, the latest of its election. A newer leader may have written.
var ErrFenced = errors.New("fenced: this term is not the latest")

// A Fence runs transactions on the user's own tables, in the server that keeps the leases.
// They commit only if no later term has been granted. The zero value fits the default tables.
//
// A fence does what a lease cannot: a process that was stopped for a minute between checking
// its lease and writing does not write.
//
//	err := mysql.Fence{}.Do(ctx, db, "billing", lead.Term, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET …")
//		return err
//	})
//
// A fence does not protect data in another server, and does not tell whether the lease is
// still held: after a lease has ended and before the next is granted, the last term still
// passes. If an operator deletes the row of the term, nothing passes until the next grant,
// which restores it; a renewal does not. To continue sooner, resign.
type Fence struct {
	// Schema and Prefix are those of [Options]. The election's tables must be in the
	// server that db of Do writes to, in any schema.
	Schema, Prefix string

	// Hold bounds how long a client that stops between the fence and COMMIT keeps a
	// successor from being elected: then the server rolls back and closes the
	// connection. Whole seconds, at least one. Default: 3 s.
	Hold time.Duration
}

const defaultHold = 3 * time.Second

// The fence locks the row of the term, which only grants write, so that renewals never wait
// for it. It uses LOCK IN SHARE MODE, since FOR SHARE takes no lock on MariaDB 10.11
// (measured).
const (
	limitHoldSQL = `SET @go_election_idle = @@SESSION.wait_timeout, @go_election_lock = @@SESSION.innodb_lock_wait_timeout,
 SESSION wait_timeout = ?, SESSION innodb_lock_wait_timeout = ?`
	fenceSQL         = `SELECT term FROM {term} WHERE name = ? LOCK IN SHARE MODE`
	restoreLimitsSQL = `SET SESSION wait_timeout = @go_election_idle, SESSION innodb_lock_wait_timeout = @go_election_lock`
)

// Do runs work in a transaction on a connection of db, and commits it if term is still the
// latest of the election. Otherwise it rolls back and returns [ErrFenced]. If work returns an
// error, Do rolls back and returns that error. As with any COMMIT, another error may mean
// that it is not known whether the transaction was committed.
//
// The check is the last statement before COMMIT, and locks: until the commit is done, no later
// term can be granted. work may take any time. It must not commit, or change the time limits
// of the session.
func (f Fence) Do(ctx context.Context, db *sql.DB, election string, term uint64, work func(*sql.Tx) error) (err error) {
	t, err := newTables(f.Schema, f.Prefix)
	if err != nil {
		return err
	}
	if f.Hold == 0 {
		f.Hold = defaultHold
	}
	if err := f.check(term); err != nil {
		return err
	}
	b := &Backend{tables: t} // for its errors
	op := fmt.Sprintf("fence %q term %d", election, term)
	conn, err := db.Conn(ctx)
	if err != nil {
		return b.fail(op, err)
	}
	limited := false
	defer func() {
		if limited {
			restoreLimits(ctx, conn)
		}
		conn.Close()
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return b.fail(op, err)
	}
	defer tx.Rollback() // does nothing after a commit
	if err := work(tx); err != nil {
		return err
	}
	seconds := int64(f.Hold / time.Second)
	limited = true
	if _, err := tx.ExecContext(ctx, limitHoldSQL, seconds, seconds); err != nil {
		return b.fail(op, err)
	}
	latest, err := f.lockTerm(ctx, tx, t, election)
	if is(err, errChanged) {
		// MariaDB with innodb_snapshot_isolation: the row has changed since the
		// transaction began. The transaction is lost; a new one reads the latest term.
		lost := err
		tx.Rollback()
		if tx, err = conn.BeginTx(ctx, nil); err != nil {
			return b.fail(op, err)
		}
		defer tx.Rollback()
		if latest, err = f.lockTerm(ctx, tx, t, election); err == nil && latest == term {
			return b.fail(op, lost)
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("mysql: %s: %w; the election has none", op, ErrFenced)
	case is(err, rights...):
		account := b.loginOf(ctx, conn, err)
		// Whether the table exists is not known; if it does not, the GRANT fails.
		return fmt.Errorf("mysql: %s: %w: %w%s, unless they exist%s", op, backend.ErrDenied, err, createTablesHint, account.grantHint("SELECT", t.inSchema(account.schema).term))
	case err != nil:
		return b.fail(op, err)
	case latest != term:
		return fmt.Errorf("mysql: %s: %w, which is %d", op, ErrFenced, latest)
	}
	return b.fail(op, tx.Commit())
}

// check checks Hold and the caller's term.
func (f Fence) check(term uint64) error {
	switch {
	case f.Hold < time.Second || f.Hold%time.Second != 0:
		return fmt.Errorf("mysql: fence: %w: Hold is %v, it must be whole seconds, at least 1s", backend.ErrInvalid, f.Hold)
	case term == 0 || term > math.MaxInt64:
		return fmt.Errorf("mysql: fence: %w: %d is no term of a leader", backend.ErrInvalid, term)
	}
	return nil
}

// restoreLimits restores the time limits of the user's connection, or drops the connection.
func restoreLimits(ctx context.Context, conn *sql.Conn) {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := conn.ExecContext(short, restoreLimitsSQL); err != nil {
		drop(conn)
	}
}

// lockTerm reads the term of an election and locks its row.
func (f Fence) lockTerm(ctx context.Context, tx *sql.Tx, t tables, election string) (term uint64, err error) {
	err = tx.QueryRowContext(ctx, newStatements(t, "''").text[fenceSQL], []byte(election)).Scan(&term)
	return term, err
}
