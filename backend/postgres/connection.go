package postgres

import (
	"context"
	sqldriver "database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// exec sends statements in one message, and returns their results. The server has the whole message
// before it begins, so it never waits for this process while it holds a lock. A message is sent
// again on another connection if the first one does not answer or breaks: all changes are
// conditional, so that a second copy has no effect.
//
// A connection that was used before may be dead without notice, so it has half of the time that is left. A new one has
// all of it, which is at least half of the call's: if connecting took longer, the next call uses it. The server
// starts a process for each connection. Clients that give up on new ones would keep a busy server busy with that.
func (d *driver) exec(ctx context.Context, statements string) (results []*pgconn.Result, err error) {
	began := time.Now()
	for range 3 {
		err = d.withConn(ctx, func(c *pgx.Conn) (err error) {
			conn, within := c.PgConn(), ctx
			if by, ok := ctx.Deadline(); ok {
				left := time.Until(by)
				if conn.CustomData()[used] != nil {
					var cancel context.CancelFunc
					within, cancel = context.WithTimeout(ctx, left/2)
					defer cancel()
				} else if left < by.Sub(began)/2 {
					return errSlow
				}
			}
			conn.CustomData()[used] = true
			results, err = conn.Exec(within, statements).ReadAll()
			switch {
			case standby(err):
				conn.Close(ctx) // the next connection may lead to the primary
			case conn.TxStatus() == 'E':
				_, _ = conn.Exec(ctx, "ROLLBACK").ReadAll()
			}
			return err
		})
		if err == nil || !broken(err) || err == errSlow || ctx.Err() != nil {
			break
		}
	}
	return results, err
}

// used marks a connection on which exec has sent something.
const used = "election.used"

var errSlow = fmt.Errorf("connecting took more than half of the time of a call: %w", context.DeadlineExceeded)

// withConn calls f with a connection. One that is in a transaction afterwards is closed.
func (d *driver) withConn(ctx context.Context, f func(*pgx.Conn) error) (err error) {
	if d.pool != nil {
		return d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return f(c.Conn()) })
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var failed error
	err = conn.Raw(func(c any) error {
		own := c.(*stdlib.Conn).Conn()
		if failed = f(own); own.IsClosed() || own.PgConn().TxStatus() != 'I' {
			return sqldriver.ErrBadConn
		}
		return nil
	})
	if errors.Is(err, sqldriver.ErrBadConn) && failed != nil {
		return failed
	}
	return errors.Join(failed, err)
}

// broken reports whether another connection may succeed.
func broken(err error) bool {
	c := code(err)
	return c == "" && !isDenied(err) || standby(err) || strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P")
}

// payload returns data for a statement, as an expression of type json. Nothing in it can be SQL.
func payload(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: strings, numbers and structs of them
	}
	return "convert_from(decode('" + base64.StdEncoding.EncodeToString(text) + "','base64'),'UTF8')::json"
}

// text returns a value of a result; "" for NULL.
func text(r *pgconn.Result, row, column int) string { return string(r.Rows[row][column]) }

const uniqueViolation = "23505"

// code returns the server's code of an error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// standby reports whether the server can only be read.
func standby(err error) bool {
	return errors.Is(err, errStandby) || code(err) == "25006" || code(err) == "55000" && strings.Contains(err.Error(), "recovery is in progress")
}

// OfOneChange implements [relational.Dialect]: a lock or a deadlock, text of another encoding, its size, or
// a cancelled statement.
func (*driver) OfOneChange(err error) bool {
	return slices.Contains([]string{uniqueViolation, "55P03", "40P01", "22P05", "54000", "57014"}, code(err))
}

// Soon implements [relational.Dialect]: somebody has just made the row.
func (*driver) Soon(err error) bool { return code(err) == uniqueViolation }

// isDenied reports whether an administrator must act: because of credentials, TLS, a missing or
// other table, rights, the encoding, a full disk or a row that is too large.
func isDenied(err error) bool {
	c := code(err)
	if c == "" {
		text := err.Error()
		return strings.Contains(text, "x509: ") || strings.Contains(text, "tls: ") || strings.Contains(text, "refused TLS") || errors.Is(err, backend.ErrDenied)
	}
	return slices.Contains([]string{"28", "3D", "3F"}, c[:2]) || slices.Contains([]string{"42501", "42P01", "42703", "42804", "42883", "22P05", "53100", "54000"}, c)
}

// MayNotWrite implements [relational.Dialect].
func (*driver) MayNotWrite(err error) bool { return code(err) == "42501" }

// Denied implements [relational.Dialect].
func (*driver) Denied(err error) bool { return isDenied(err) }

// Hint implements [relational.Dialect].
func (d *driver) Hint(err error) string {
	switch code(err) {
	case "42P01", "3F000", "42703", "42804":
		return "; an account that may CREATE makes the table by \"elect schema --apply\", or with this: " + createSQL(d.Table)
	case "42501":
		grant := grantSQL(d.Table, d.account())
		if strings.Contains(err.Error(), "pg_control_system") {
			grant = "GRANT EXECUTE ON FUNCTION pg_control_system() TO " + d.account() + ";"
		}
		return "; an administrator can grant what is needed: " + grant
	case "22P05":
		return "; the encoding of the database must be UTF8"
	}
	return ""
}

// account returns the name of the account as a statement has it.
func (d *driver) account() string {
	if d.user == "" || clean.Text(d.user, 63, false) != d.user {
		return `"account"`
	}
	return `"` + strings.ReplaceAll(d.user, `"`, `""`) + `"`
}
