package drivertest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/lab/testbed"
)

// Virtual opens a pool as [testbed.OpenDB] does, for bubbles of testing/synctest. Before each statement it
// sets the session's clock to the caller's, so that virtual hours take moments on a real server.
func Virtual(t testing.TB, c *mysql.Config) *sql.DB {
	t.Helper()
	c = c.Clone()
	c.InterpolateParams = true
	db := sql.OpenDB(virtual{testbed.Connector(c)})
	t.Cleanup(func() { db.Close() })
	return db
}

type virtual struct{ driver.Connector }

func (v virtual) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := v.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return virtualConn{c.(conn)}, nil
}

type conn = interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type virtualConn struct{ conn }

type values = []driver.NamedValue

func (c virtualConn) set(ctx context.Context) error {
	now := float64(time.Now().UnixMicro()) / 1e6
	_, err := c.conn.ExecContext(ctx, fmt.Sprintf("SET timestamp = %.6f", now), nil)
	return err
}

func (c virtualConn) ExecContext(ctx context.Context, q string, args values) (driver.Result, error) {
	if err := c.set(ctx); err != nil {
		return nil, err
	}
	return c.conn.ExecContext(ctx, q, args)
}

func (c virtualConn) QueryContext(ctx context.Context, q string, args values) (driver.Rows, error) {
	if err := c.set(ctx); err != nil {
		return nil, err
	}
	return c.conn.QueryContext(ctx, q, args)
}
