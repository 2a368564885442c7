package postgres

import (
	"context"
	sqldriver "database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// exec sends statements in one message, and returns their results. The server has the whole message
// before it begins, so it never waits for this process while it holds a lock. A message is sent
// again on another connection if the first one does not answer or breaks: all changes are
// conditional, so that a second copy has no effect.
func (d *driver) exec(ctx context.Context, statements string) (results []*pgconn.Result, err error) {
	const tries = 3
	for try := range tries {
		ctx, cancel := ctx, context.CancelFunc(func() {})
		if by, ok := ctx.Deadline(); ok && try < tries-1 {
			ctx, cancel = context.WithTimeout(ctx, time.Until(by)/time.Duration(tries-try))
		}
		err = d.withConn(ctx, func(c *pgx.Conn) error {
			results, err = c.PgConn().Exec(ctx, statements).ReadAll()
			switch {
			case standby(err):
				c.PgConn().Close(ctx) // the next connection may lead to the primary
			case c.PgConn().TxStatus() == 'E':
				_, _ = c.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
			}
			return err
		})
		cancel()
		if err == nil || !broken(err) {
			break
		}
	}
	return results, err
}

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
