package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// ErrFenced is the error of a [Fence] if the term is not, or no longer, that of the leader.
var ErrFenced = errors.New("fenced: this term is not that of the leader")

// A Fence protects transactions on the user's own tables, in the database that keeps the leases. The zero
// value fits the default table. A fence does what a lease cannot: a process that was stopped for a minute
// between checking its lease and writing does not write.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := (postgres.Fence{}).Check(ctx, tx, "billing", lead.Term); err != nil {
//			return err
//		}
//		_, err := tx.Exec(ctx, "UPDATE account SET …")
//		return err
//	})
//
// Until the transaction has ended no other leader is elected; renewals go on. The account needs SELECT,
// and UPDATE of the column kind. Between the expiry of a lease and the next grant, its term still passes.
type Fence struct {
	// Schema and Prefix are those of [Options]. If no schema is named, Check asks, in one request more, for
	// that to which the search_path leads with which the connection began: there must be one table.
	Schema, Prefix string

	// Hold bounds how long a client that stops within the transaction keeps a successor from being
	// elected: then the server ends the connection. At least 1 ms. Default: 3 s.
	Hold time.Duration
}

// fenceSQL locks the row of the record, which renewals do not write. Text comes in base64 and goes as bytes,
// since the program's connection may have another encoding.
const fenceSQL = `SELECT convert_to(value, 'UTF8'),
 set_config('idle_in_transaction_session_timeout', $2, true) FROM {table}
 WHERE kind = 'record' AND name = convert_from(decode($1, 'base64'), 'UTF8') FOR SHARE`

// findSQL finds the table if no schema is named.
const findSQL = `SELECT count(*), convert_to(coalesce(min(n.nspname::text), ''), 'UTF8') ` + tablesSQL

// Check returns nil if term is that of the election's leader, and keeps it so until tx has ended. It waits
// for a grant that is being written. The error is ErrFenced if it is another term. Roll back after any error.
func (f Fence) Check(ctx context.Context, tx pgx.Tx, election string, term uint64) error {
	return f.check(election, term, func(q string, args ...any) row { return tx.QueryRow(ctx, q, args...) })
}

// CheckSQL is Check for a transaction of database/sql, with any driver.
func (f Fence) CheckSQL(ctx context.Context, tx *sql.Tx, election string, term uint64) error {
	return f.check(election, term, func(q string, a ...any) row { return tx.QueryRowContext(ctx, q, a...) })
}

type row = interface{ Scan(into ...any) error }

func (f Fence) check(election string, term uint64, query func(statement string, args ...any) row) error {
	d, err := unconnected(f.Schema, f.Prefix)
	f.Hold = cmp.Or(f.Hold, 3*time.Second)
	if err == nil && (f.Hold < time.Millisecond || term == 0) {
		err = fmt.Errorf("with Hold %v in term %d; they must be at least 1ms and 1", f.Hold, term)
	}
	if err != nil {
		return fmt.Errorf("postgres: fence: %w: %w", backend.ErrInvalid, err)
	}
	t := d.Table
	if t.Schema == "" {
		tables, schema := 0, []byte{}
		err = query(d.named(findSQL)).Scan(&tables, &schema)
		t.Schema = string(schema)
		if err == nil && tables != 1 {
			err = fmt.Errorf("%w: the search_path leads to %d tables %s; name the schema in the Fence, "+
				"as in the configuration", backend.ErrDenied, tables, d.Table)
		}
	}
	var value []byte
	if err == nil {
		name, hold := base64.StdEncoding.EncodeToString([]byte(election)), fmt.Sprint(f.Hold.Milliseconds())
		err = query(strings.ReplaceAll(fenceSQL, "{table}", ascii(t)), name, hold).Scan(&value, new(string))
	}

	r, _ := lease.Decode(lease.Records, value).(*lease.Record)
	switch {
	case code(err) == readOnly:
		err = fmt.Errorf("%w: not in a transaction that may write: %w", backend.ErrDenied, err)
	case err != nil && !errors.Is(err, sql.ErrNoRows): // which is pgx.ErrNoRows, too
		err = d.Fail(err)
	case r == nil || r.Term != term || r.Nonce == "":
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("postgres: fence %q term %d: %w", election, term, err)
	}
	return nil
}
