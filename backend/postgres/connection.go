package postgres

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// exec sends statements in one message, and returns the results of its queries. The server has the whole message
// before it begins, so it never waits for this process while it holds a lock. A message is sent
// again on another connection if the first one breaks, or has not answered after half of the call's
// time, since it may be dead without notice: all changes are conditional, so that a second copy has no effect.
// If the server has cancelled a statement, the next copy first lifts the limit of the running time by itself: the server
// counts the reading of a long message, too, so somebody's limit of a millisecond ends it before it can be lifted.
//
// The end of a call does not end a connection. The server starts a process for each, and clients that
// close them because answers are late keep a busy server busy. The next call uses it.
func (d *driver) exec(ctx context.Context, statements string) ([]*pgconn.Result, error) {
	const tries = 3
	answers := make(chan answer, tries)
	var half <-chan time.Time
	if by, ok := ctx.Deadline(); ok {
		half = time.After(time.Until(by) / 2)
	}
	apart := false
	for sent := 0; ; {
		if sent < tries {
			sent++
			go func(again, apart bool) { answers <- d.try(ctx, statements, again, apart) }(sent > 1, apart)
		}
		select {
		case a := <-answers:
			apart = code(a.err) == queryCanceled
			if code(a.err) == lockNotAvailable {
				return nil, d.locked(ctx, a.err)
			}
			if a.err == nil || !broken(a.err) || sent == tries {
				return a.results, a.err
			}
		case <-half:
		case <-ctx.Done():
			return nil, d.outOfTime(ctx.Err())
		}
	}
}

// outOfTime completes the error of a call that has ended without an answer: the program's pool may have no connection left.
func (d *driver) outOfTime(err error) error {
	switch {
	case d.db != nil:
		s := d.db.Stats()
		return client.PoolBusy(s.InUse, s.MaxOpenConnections, err)
	case d.pool != nil:
		s := d.pool.Stat()
		return client.PoolBusy(int(s.AcquiredConns()), int(s.MaxConns()), err)
	}
	return err
}

// locked says which session keeps the table locked, if the server tells.
func (d *driver) locked(ctx context.Context, err error) error {
	who := "a lock"
	if a := d.try(ctx, d.statement(lockedSQL, nil), true, false); a.err == nil && len(a.results[0].Rows) == 1 {
		r := a.results[0]
		name := func(column int) string { return clean.Text(text(r, 0, column), 63, false) }
		who = fmt.Sprintf("the table %s locked: process %.20s of user %q, application %q", d.Settled(), text(r, 0, 0), name(1), name(2))
	}
	return fmt.Errorf("%w: another session keeps %s: %w", backend.ErrUnavailable, who, err)
}

type answer struct {
	results []*pgconn.Result
	err     error
}

// lateness is how long a connection may answer after the end of a call. One that does not is closed.
const lateness = 2 * time.Second

// try sends statements on one connection: in one message, or what lifts the limit of the running time apart. A copy (again) does
// not wait for the connection of another call. It may outlast ctx.
func (d *driver) try(ctx context.Context, statements string, again, apart bool) (a answer) {
	within := ctx
	if by, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadline(d.ctx, by.Add(lateness))
		defer cancel()
	}
	a.err = d.withConn(within, again, func(c *pgx.Conn) (err error) {
		if ctx.Err() != nil {
			return ctx.Err() // connecting took all the time
		}
		conn := c.PgConn()
		if conn.TxStatus() != 'I' {
			conn.Close(within)
			return errInTransaction
		}
		text := onConnection(ctx, statements, conn)
		if begin, rest, ok := strings.Cut(text, limitSQL); ok && apart {
			_, err = conn.Exec(within, begin+limitSQL).ReadAll()
			text = rest
		}
		if err == nil {
			a.results, err = conn.Exec(within, text).ReadAll()
		}
		a.results = slices.DeleteFunc(a.results, func(r *pgconn.Result) bool { return !r.CommandTag.Select() })
		if code(err) == readOnly && conn.ParameterStatus("in_hot_standby") == "off" { // PostgreSQL 14 or later tells
			err = fmt.Errorf("%w: %w", errReadOnly, err)
		}
		switch {
		case standby(err):
			conn.Close(within) // the next connection may lead to the primary
		case conn.TxStatus() == 'E':
			_, _ = conn.Exec(within, "ROLLBACK").ReadAll()
		}
		return err
	})
	return a
}

// errInTransaction is the error of a connection on which the program has left a transaction open.
var errInTransaction = errors.New("a transaction is open on this connection of the program's pool")

// errReadOnly is the error of a primary whose administrator lets this account only read.
var errReadOnly = fmt.Errorf("%w: default_transaction_read_only is on", backend.ErrDenied)

// onConnection completes statements with what depends on the connection: {newer}, and {pid} of the process that the
// server named when it was made. A lock is waited for {patience} ms, so that there is time to say who has it.
func onConnection(ctx context.Context, statements string, c *pgconn.PgConn) string {
	newer, patience := "", time.Second
	if by, ok := ctx.Deadline(); ok {
		patience = max(time.Millisecond, min(patience, time.Until(by)/2))
	}
	if major, _, _ := strings.Cut(c.ParameterStatus("server_version"), "."); len(major) > 1 && major >= "17" {
		newer = newerSQL
	}
	return strings.NewReplacer("{newer}", newer, "{patience}", strconv.FormatInt(patience.Milliseconds(), 10), "{pid}", strconv.FormatUint(uint64(c.PID()), 10)).Replace(statements)
}

// withConn calls f with a connection. One that is in a transaction afterwards is closed. If more is set, another one may
// be opened while the only one is used.
func (d *driver) withConn(ctx context.Context, more bool, f func(*pgx.Conn) error) error {
	c, err := d.conns.Take(ctx, more)
	if err != nil {
		return err
	}
	err = f(c.C.Conn)
	d.conns.Give(c, c.C.IsClosed() || c.C.PgConn().TxStatus() != 'I')
	return err
}

func isConnectError(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// broken reports whether the next copy may succeed. If no connection could be made, the next call makes one.
func broken(err error) bool {
	if isConnectError(err) {
		return false
	}
	c := code(err)
	return c == "" && !isDenied(err) || standby(err) || c == queryCanceled || strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P")
}

// textSQL returns text for a statement, as an expression. Nothing in it can be SQL.
func textSQL(text string) string {
	return "convert_from(decode('" + base64.StdEncoding.EncodeToString([]byte(text)) + "','base64'),'UTF8')"
}

// plainly leaves of an error of connecting what an operator needs: what the server refused, if it did, since the text of pgx
// begins with an attempt to use TLS.
func plainly(err error) error {
	what := map[string]string{wrongPassword: "password", wrongAccount: "login", noDatabase: "database"}[code(err)]
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && what != "" {
		return fmt.Errorf("the server refused the %s: %w", what, e)
	}
	if isConnectError(err) {
		return unconnectable{err}
	}
	return err
}

// unconnectable is an error of pgx in one line. That has one for each attempt, with TLS and without.
type unconnectable struct{ error }

func (e unconnectable) Unwrap() error { return e.error }

func (e unconnectable) Error() string { return strings.ReplaceAll(e.error.Error(), "\n\t", "; ") }

// text returns a value of a result; "" for NULL.
func text(r *pgconn.Result, row, column int) string { return string(r.Rows[row][column]) }

// Codes of errors (postgresql.org/docs/current/errcodes-appendix.html).
const (
	notSupported     = "0A000"
	noDatabase       = "3D000"
	uniqueViolation  = "23505"
	readOnly         = "25006"
	wrongAccount     = "28000" // or pg_hba.conf does not let it in
	wrongPassword    = "28P01" // or no such account: the server does not tell which
	noRight          = "42501"
	undefinedTable   = "42P01"
	undefinedColumn  = "42703"
	notReady         = "55000"
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
	tooManyConns     = "53300" // of the server, the database or the role
)

// code returns the server's code of an error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// standby reports whether the server can only be read. One that refuses a transaction that may write has no code of its
// own, and neither has one that does not tell a position of its log: both are known by the file of the server's source.
func standby(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errStandby) || ok && !errors.Is(err, errReadOnly) && (e.Code == readOnly || e.Code == notSupported && e.File == "variable.c" || e.Code == notReady && e.File == "xlogfuncs.c")
}

// Fault implements [relational.Dialect].
func (*driver) Fault(err error) relational.Fault {
	c := code(err)
	return relational.Fault{
		Denied:      isDenied(err),
		MayNotWrite: c == noRight || errors.Is(err, errReadOnly),
		Lacks:       c == noRight || c == undefinedTable,
		OfOneChange: slices.Contains(ofOneChange, c),
		Soon:        c == uniqueViolation, // somebody has just made the row
	}
}

// ofOneChange are a lock or a deadlock, text of another encoding, its size, and a cancelled statement.
var ofOneChange = []string{uniqueViolation, lockNotAvailable, "40P01", "22001", "22P05", "54000", queryCanceled}

// Errors about which an administrator must act, by class and by code.
var (
	deniedClasses = []string{
		"0A", "22", // an encoding, a rule, or a column of another type
		"23", "44", // a constraint that is not ours
		"28",       // credentials
		"3D", "3F", // no such database or schema
		"42",                   // rights, a missing or other table, another server than PostgreSQL 13 or later
		"54",                   // a row that is too large
		"58",                   // the server's files
		"P0", "38", "39", "45", // somebody's trigger
	}
	deniedCodes = []string{
		"53100", "53400", // a full disk, a limit
		notReady,         // the database takes no connections, or the table has no replica identity
		"57P04",          // the database was dropped
		"XX001", "XX002", // damage
	}
)

// isDenied reports whether an administrator must act.
func isDenied(err error) bool {
	if c := code(err); c != "" {
		return errors.Is(err, errReadOnly) || !standby(err) && c != uniqueViolation && (slices.Contains(deniedClasses, c[:2]) || slices.Contains(deniedCodes, c)) || refusedByPooler(err)
	}
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if all, ok := c.Unwrap().(interface{ Unwrap() []error }); ok { // several attempts, such as one with TLS and one without
			return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !isDenied(err) })
		}
	}
	text := err.Error()
	return slices.ContainsFunc(deniedErrors, func(e error) bool { return errors.Is(err, e) }) ||
		slices.ContainsFunc(deniedTexts, func(s string) bool { return strings.Contains(text, s) })
}

// Errors of a client whose DSN asks for a server that takes no writes, or for another way to log in.
var (
	deniedErrors = []error{backend.ErrDenied, pgconn.ErrReadWriteConnection, pgconn.ErrPrimaryConnection}
	deniedTexts  = []string{"x509: ", "tls: ", "refused TLS", "channel binding", "require_auth", "protocol version too low"}
)

// refusedByPooler reports whether PgBouncer is not set up for this backend. Most of its errors have one code.
func refusedByPooler(err error) bool {
	return code(err) == "08P01" && slices.ContainsFunc([]string{"PQexec disallowed", "unsupported startup parameter", "does not exist"}, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// Hint implements [relational.Dialect].
func (d *driver) Hint(err error, s *relational.Survey) string {
	t, who := d.Settled(), cmp.Or(s.Account, account(d.user))
	switch code(err) {
	case wrongPassword:
		return "; correct the account or its password in the dsn"
	case noDatabase:
		return "; make the database (CREATE DATABASE), or correct its name in the dsn"
	case "3F000":
		return "; make the schema (CREATE SCHEMA), or correct its name in the configuration"
	case undefinedTable:
		if s.Where == "" {
			return hintToMake(t, who)
		}
		return " in " + s.Where + s.Elsewhere(t) + s.Hint
	case undefinedColumn:
		return "; it is a view, or another table than \"elect schema\" prints: name another schema or prefix, or rename it"
	case noRight:
		if s.Hint != "" && !slices.Contains(s.Found, t.Schema) { // it could not be made, wherever else there is one
			return s.Hint
		}
		return "; " + hintToGrant(err, t, who)
	case "22P05":
		return "; the encoding of the database must be UTF8"
	case notSupported:
		if strings.Contains(err.Error(), "UTF8") {
			return "; the encoding of the database must be UTF8"
		}
	case readOnly:
		return "; it is set for the account, the database or the server: ALTER ROLE " + who + " RESET default_transaction_read_only;"
	case "42704":
		return "; make it (a role by CREATE ROLE), or correct or remove its name, in the dsn, too"
	case "42601", "42883":
		return "; the server must be PostgreSQL 13 or later, and the table the one that \"elect schema\" prints"
	case "08P01":
		return "; PgBouncer must have disable_pqexec 0, know the database, and ignore or take the parameters of the dsn"
	}
	return ""
}

// hintToGrant says what an administrator can do about missing rights.
func hintToGrant(err error, t relational.Table, account string) string {
	const grant = "an administrator can grant what is needed: "
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Routine == "check_enable_rls" {
		return "rows that are hidden look like rows that are not there, so the table must show all of them to all members; its owner can let it: ALTER TABLE " + t.String() + " DISABLE ROW LEVEL SECURITY;"
	}
	if strings.Contains(err.Error(), "pg_control_system") {
		return grant + "GRANT EXECUTE ON FUNCTION pg_control_system() TO " + account + ";"
	}
	return grant + grantSQL(t, account)
}

// account returns the name of an account, or of the role that was set for it, as a statement has it.
func account(user string) string {
	if user == "" || clean.Text(user, 63, false) != user {
		return `"account"`
	}
	return quoted(user)
}
