package postgres

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// exec sends statements in one message, so that the server never waits for this process while it holds a
// lock, and returns the results. A second copy has no effect ([client.Send]): all changes are conditional.
func (d *driver) exec(ctx context.Context, statements string) ([]*pgconn.Result, error) {
	results, err := d.try(ctx, statements)
	switch {
	case code(err) == lockNotAvailable:
		return nil, d.locked(ctx, err)
	case code(err) == noRight, code(err) == readOnly: // a session keeps what the account had when it began
		d.conns.Replace()
	case err != nil && ctx.Err() != nil: // the program's pool may have no connection left
		used, most := d.inUse()
		return nil, client.PoolBusy(used, most, err)
	}
	return results, err
}

// locked says which session keeps the table locked, if the server tells.
func (d *driver) locked(ctx context.Context, err error) error {
	who := "a lock"
	results, failed := d.try(ctx, d.statement(lockedSQL, nil))
	if failed == nil && len(results[0].Rows) == 1 {
		said := func(column int) string { return clean.Text(text(results[0], 0, column), 63, false) }
		who = fmt.Sprintf("the table %s locked: process %s of user %q, application %q",
			d.Settled(), said(0), said(1), said(2))
	}
	return fmt.Errorf("%w: another session keeps %s: %w", backend.ErrUnavailable, who, err)
}

func (d *driver) try(ctx context.Context, statements string) ([]*pgconn.Result, error) {
	sendCopy := func(within context.Context, c *conn) (results []*pgconn.Result, broken bool, err error) {
		conn := c.PgConn()
		if conn.TxStatus() == 'I' {
			results, err = send(within, conn, onConnection(ctx, statements, conn))
		} else {
			err = errors.New("a transaction is open on this connection of the program's pool")
		}
		return results, conn.IsClosed() || conn.TxStatus() != 'I' || standby(err), err
	}
	return client.Send(ctx, d.Context, &d.conns, sendCopy, isFinal)
}

// send sends a transaction that begins with limitSQL, and returns the results of its queries. A limit of a
// millisecond may end it before that is lifted: then another message comes first, which only lifts it.
func send(ctx context.Context, c *pgconn.PgConn, statements string) (results []*pgconn.Result, err error) {
	for try := range 5 {
		rest := statements
		if try > 0 {
			begin, after, _ := strings.Cut(statements, limitSQL)
			_, err = c.Exec(ctx, begin+limitSQL).ReadAll()
			rest = after
		}
		if err == nil {
			results, err = c.Exec(ctx, rest).ReadAll()
		}
		if c.TxStatus() == 'E' {
			_, _ = c.Exec(ctx, "ROLLBACK").ReadAll()
		}
		if code(err) != queryCanceled {
			break
		}
	}
	return slices.DeleteFunc(results, func(r *pgconn.Result) bool { return !r.CommandTag.Select() }), err
}

// onConnection completes statements with what depends on the connection: {newer}, and {pid} of the process
// that the server named when it was made. A lock is waited for {patience} ms: that leaves time to say whose.
func onConnection(ctx context.Context, statements string, c *pgconn.PgConn) string {
	newer, patience := "", time.Second
	if by, ok := ctx.Deadline(); ok {
		patience = max(time.Millisecond, min(patience, time.Until(by)/2))
	}
	if c.ParameterStatus("server_version") >= "17" {
		newer = newerSQL
	}
	return strings.NewReplacer("{newer}", newer, "{patience}", fmt.Sprint(patience.Milliseconds()),
		"{pid}", fmt.Sprint(c.PID())).Replace(statements)
}

// isFinal reports whether another connection would answer the same, or none could be made by this call.
func isFinal(err error) bool {
	c := code(err)
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || c == "" {
		return ok || isDenied(err)
	}
	return !standby(err) && !strings.HasPrefix(c, "08") && !strings.HasPrefix(c, "57P")
}

// textSQL returns text for a statement, as an expression. Nothing in it can be SQL.
func textSQL(text string) string {
	return "convert_from(decode('" + base64.StdEncoding.EncodeToString([]byte(text)) + "','base64'),'UTF8')"
}

// plainly leaves of an error of connecting what an operator needs: what the server refused, if it did, since
// the text of pgx begins with an attempt to use TLS.
func plainly(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && refused(e) != "" {
		return fmt.Errorf("the server refused the %s: %w", refused(e), e)
	}
	return err
}

// refused returns what a server, or PgBouncer, has refused when a connection began; "" for none.
func refused(err error) string {
	c := code(err)
	pooler := func(texts ...string) bool { return c == ofPooler && has(err, texts...) }
	switch {
	case c == "28P01", pooler("authentication failed"): // or no such account: the server does not tell
		return "password"
	case c == "28000", pooler("rejected", "no such user", "required"), // such as TLS
		c == "XX000" && has(err, "Tenant or user not found", "ndpoint"): // poolers of Supabase and Neon
		return "login"
	case c == "3D000", pooler("does not exist", "no such database", "is disabled"):
		return "database"
	}
	return ""
}

// text returns a value of a result; "" for NULL.
func text(r *pgconn.Result, row, column int) string { return string(r.Rows[row][column]) }

// Codes of errors (postgresql.org/docs/current/errcodes-appendix.html).
const (
	notSupported     = "0A000"
	ofPooler         = "08P01" // most errors of PgBouncer have it
	notUTF8          = "22P05"
	uniqueViolation  = "23505"
	readOnly         = "25006" // by default_transaction_read_only: a standby refuses the BEGIN before
	noRight          = "42501"
	undefinedTable   = "42P01"
	full             = "54000" // a limit of the program
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
)

// code returns the server's code of an error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// standby reports whether the server can only be read. To refuse a transaction that may write, or LISTEN, it
// has no code of its own: that is known by the function in the server's source.
func standby(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errStandby) || ok && (e.Routine == "PreventCommandDuringRecovery" ||
		e.Code == notSupported && e.Routine == "call_bool_check_hook")
}

func (*driver) Fault(err error) relational.Fault {
	c := code(err)
	return relational.Fault{
		Denied:      isDenied(err),
		MayNotWrite: c == noRight || c == readOnly,
		Lacks:       c == noRight || c == undefinedTable || c == "3F000",
		OfOneChange: slices.Contains(ofOneChange, c), // or a deadlock, or its size
		Soon:        c == uniqueViolation,            // somebody has just made the row
	}
}

var ofOneChange = []string{uniqueViolation, lockNotAvailable, "40P01", notUTF8, "22001", full, queryCanceled}

// denied are the classes and codes of errors about which an administrator must act.
var denied = []string{
	"0A", "22", "3F", // an encoding, a rule, a column of another type, no such schema
	"23", "44", // a constraint that is not ours
	readOnly,
	"42",                   // rights, a missing or other table, another server than PostgreSQL 13 or later
	"53100", "53400", "54", // a full disk, a limit, a row that is too large
	"55000", "55P02", // the database takes no connections, no replica identity; a parameter of the dsn
	"57P04",                                 // the database was dropped
	"58030", "58P0", "F0", "XX001", "XX002", // the server's files and configuration, damage
	"P0", "38", "39", "45", // somebody's trigger
}

func isDenied(err error) bool {
	switch c := code(err); {
	case errors.Is(err, backend.ErrDenied), refused(err) != "":
		return true
	case c == ofPooler: // PgBouncer is not set up for this backend
		return has(err, "PQexec disallowed", "unsupported startup parameter")
	case c != "":
		return c != uniqueViolation && !standby(err) &&
			slices.ContainsFunc(denied, func(begin string) bool { return strings.HasPrefix(c, begin) })
	}
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if all, ok := c.Unwrap().(interface{ Unwrap() []error }); ok { // such as one with TLS and one without
			return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !isDenied(err) })
		}
	}
	// The DSN asks for another way to log in.
	return client.RefusesTLS(err.Error()) ||
		has(err, "refused TLS", "channel binding", "require_auth", "protocol version too low",
			"no GSSAPI provider", "does not support SCRAM", "OAuth authentication required")
}

func has(err error, texts ...string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(err.Error(), s) })
}

func (d *driver) Hint(err error, s *relational.Survey) string {
	const grant = "; an administrator can grant what is needed: "
	t, who := d.Settled(), cmp.Or(s.Account, account(d.user))
	e, _ := errors.AsType[*pgconn.PgError](err)
	switch c := code(err); {
	case e != nil && strings.Contains(e.Where, "PL/") && !strings.Contains(e.Where, "inline_code"):
		return "; a trigger, default or constraint of the table has failed, in which search_path is " +
			"pg_catalog: " + clean.Text(strings.Join(strings.Fields(e.Where), " "), 300, false)
	case c == undefinedTable && s.Where == "":
		return hintToMake(t, who)
	case c == undefinedTable:
		return " in " + s.Where + s.Elsewhere(t) + s.Hint
	case c == noRight && s.Hint != "" && !slices.Contains(s.Found, t.Schema): // it could not be made here
		return s.Hint
	case c == noRight && e.Routine == "check_enable_rls":
		return "; all members must see all rows, and the table's owner can let them: " +
			"ALTER TABLE " + t.String() + " DISABLE ROW LEVEL SECURITY;"
	case c == noRight && ofServer.MatchString(e.Message):
		return grant + "GRANT EXECUTE ON FUNCTION " + ofServer.FindString(e.Message) + " TO " + who + ";"
	case c == noRight && e.SeverityUnlocalized != "FATAL": // or it is the database that may not be used
		return grant + grantSQL(t, who)
	case c == notUTF8, c == notSupported && strings.Contains(e.Message, "UTF8"):
		return "; the encoding of the database must be UTF8"
	case c == readOnly:
		return "; it is set for the account, the database or the server: " +
			"ALTER ROLE " + who + " RESET default_transaction_read_only;"
	case slices.Contains([]string{"42703", "42804", "42883", "42P10"}, c): // a column, type, function or key
		return "; it is a view, or another table than \"elect schema\" prints: name another schema or " +
			"prefix, or rename it. Or the server is older than PostgreSQL 13"
	case c == ofPooler:
		return "; PgBouncer must know database and account, take the dsn's parameters, with disable_pqexec 0"
	case (c == "42704" || c == "55P02") && e.SeverityUnlocalized == "FATAL": // at the login
		return "; it is in the dsn, and not known to this client, so it was sent to the server: leave it out"
	}
	return ""
}

// ofServer finds a function that no account lacks by default, in an error of any language.
var ofServer = regexp.MustCompile("pg_(control_system|walfile_name|current_wal_flush_lsn|notify)")

// account returns the name of an account, or of the role that was set for it, as a statement has it.
func account(user string) string {
	if user == "" || clean.Text(user, 63, false) != user {
		return `"account"`
	}
	return relational.Quoted(user, `"`)
}
