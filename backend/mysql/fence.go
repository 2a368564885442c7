package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// ErrFenced is the error of [Fence.Do] after it has rolled a transaction back because the term is not, or no
// longer, that of the leader, or may not be. A newer leader may have written.
var ErrFenced = errors.New("fenced: this term is not that of the leader")

// A Fence runs transactions on the user's own tables, in the server that keeps the leases. They commit only
// if no later term has been granted. The zero value fits the default table. A fence does what a lease cannot:
// a process that was stopped for a minute between checking its lease and writing does not write.
//
//	err := mysql.Fence{}.Do(ctx, db, "billing", lead.Term, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET …")
//		return err
//	})
//
// A fence does not protect data in another server. Between the expiry of a lease and the next
// grant, its term still passes. The account needs SELECT.
type Fence struct {
	// Schema and Prefix are those of [Options]. The table must be in the server that db of Do writes to, in
	// any schema. If none is named, it is that of the DSN, and Do makes sure that nobody has said USE on the
	// connection, which takes two requests more.
	Schema, Prefix string

	// Hold bounds how long a client that stops between the fence and COMMIT keeps a successor from being
	// elected: then the server rolls back and closes the connection. Whole seconds. Default: 3 s.
	Hold time.Duration
}

// The fence locks the row of the record, which renewals do not write. It uses LOCK IN SHARE MODE, since FOR
// SHARE takes no lock on MariaDB 10.11 (measured). Names are hexadecimal, X'7265636f7264' is record: what the
// connection was told of character sets and limits does not matter.
const (
	limitHoldSQL = `SET @go_election_idle = @@SESSION.wait_timeout,
 @go_election_lock = @@SESSION.innodb_lock_wait_timeout,
 @go_election_results = @@SESSION.character_set_results, @go_election_text = @@SESSION.collation_connection,
 @go_election_big = @@SESSION.sql_big_selects, @go_election_rows = @@SESSION.sql_select_limit,
 SESSION wait_timeout = %[1]d, SESSION innodb_lock_wait_timeout = %[1]d,
 SESSION character_set_results = utf8mb4, SESSION collation_connection = utf8mb4_bin,
 SESSION sql_big_selects = 1, SESSION sql_select_limit = 1000`

	fenceSQL = `SELECT value FROM {table} WHERE kind = X'7265636f7264' AND name = X'%x' LOCK IN SHARE MODE`

	restoreLimitsSQL = `SET SESSION wait_timeout = @go_election_idle,
 SESSION innodb_lock_wait_timeout = @go_election_lock,
 SESSION character_set_results = @go_election_results, SESSION collation_connection = @go_election_text,
 SESSION sql_big_selects = @go_election_big, SESSION sql_select_limit = @go_election_rows`
)

// Do runs work in a transaction on a connection of db, and commits it if term is still that of the leader.
// Otherwise it rolls back and returns [ErrFenced], or the error of work. As with any COMMIT, another error
// may mean that it is not known whether the transaction was committed.
//
// The check is the last statement before COMMIT, and locks: until the commit is done, no later term can be
// granted. work may take any time. It must not commit, or change the session's time limits.
func (f Fence) Do(ctx context.Context, db *sql.DB, name string, term uint64, work func(*sql.Tx) error) error {
	d, err := unconnected(f.Schema, f.Prefix)
	f.Hold = cmp.Or(f.Hold, 3*time.Second)
	if err == nil && (f.Hold < time.Second || f.Hold%time.Second != 0 || term == 0) {
		err = fmt.Errorf("with Hold %v in term %d; they must be whole seconds, and at least 1", f.Hold, term)
	}
	if err != nil {
		return fmt.Errorf("mysql: fence: %w: %w", backend.ErrInvalid, err)
	}
	fail := func(err error) error { return fmt.Errorf("mysql: fence %q term %d: %w", name, term, err) }
	c, err := db.Conn(ctx)
	if err != nil {
		return fail(d.Fail(err))
	}
	defer c.Close()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return fail(d.Fail(err))
	}
	defer tx.Rollback() // does nothing after a commit; a broken connection cannot be closed before
	if err := work(tx); err != nil {
		return err
	}

	defer func() {
		tx.Rollback()
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := c.ExecContext(short, restoreLimitsSQL); err != nil {
			client.DropConn(c)
		}
	}()
	if err := d.commit(ctx, tx, f.Hold, name, term); err != nil {
		return fail(err)
	}
	return nil
}

// commit locks the record, compares its term, and commits. Its errors are classed. Texts are complete, since
// a server may allow no prepared statements.
func (d *driver) commit(ctx context.Context, tx *sql.Tx, hold time.Duration, name string, term uint64) error {
	t, value := d.Table, []byte(nil)
	_, err := tx.ExecContext(ctx, fmt.Sprintf(limitHoldSQL, hold/time.Second))
	if err == nil {
		t, err = d.find(ctx, tx)
	}
	if err == nil {
		err = tx.QueryRowContext(ctx, fmt.Sprintf(fill(fenceSQL, t), name)).Scan(&value)
	}
	r, _ := lease.Decode(lease.Records, value).(*lease.Record)
	switch {
	case is(err, errChanged): // MariaDB with innodb_snapshot_isolation; renewals do not write the row
		return fmt.Errorf("%w: its record has changed since the transaction began", ErrFenced)
	case is(err, rights...):
		var who string
		tx.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&who) // or the account stays open
		return fmt.Errorf("%w: %w%s", backend.ErrDenied, err, grantHint("SELECT", t, accountOf(who)))
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return d.Fail(err)
	case r == nil || r.Term != term || r.Nonce == "":
		return ErrFenced
	}
	return d.Fail(tx.Commit())
}

// find returns the table with its schema. A temporary table of the session would hide it.
func (d *driver) find(ctx context.Context, tx *sql.Tx) (t relational.Table, err error) {
	if t = d.Table; t.Schema == "" {
		said, err := saidUse(ctx, tx.QueryRowContext)
		if err == nil && said {
			err = fmt.Errorf("%w: on this connection somebody has selected a schema by USE; "+
				"name the schema in the Fence, as in the configuration", backend.ErrDenied)
		}
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT COALESCE(DATABASE(), '')").Scan(&t.Schema)
		}
		if err != nil {
			return t, err
		}
	}

	var name, made string
	err = tx.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.String()).Scan(&name, &made)
	if err == nil && strings.HasPrefix(made, "CREATE TEMPORARY") {
		err = fmt.Errorf("%w: a temporary table hides the table %s on this connection: drop it",
			backend.ErrDenied, t)
	}
	return t, err
}
