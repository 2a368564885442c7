package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
)

// A session is one connection for the duration of one call. A write and the read that
// confirms it use the same connection.
type session struct {
	*statements
	backend *Backend
	conn    *sql.Conn
	used    bool // the server has answered on this connection in this call
}

// call runs f with a connection, one call at a time, so that there is always a connection
// for a renewal. A connection that broke while it was idle fails before anything is sent;
// then the next one is tried, until one is new.
func (b *Backend) call(ctx context.Context, op string, f func(*session) error) error {
	select {
	case b.mutex <- struct{}{}:
		defer func() { <-b.mutex }()
	case <-ctx.Done():
		return b.fail(op, ctx.Err())
	}
	return b.callNow(ctx, op, f)
}

// callNow is call for renewals, which do not wait for other calls.
func (b *Backend) callNow(ctx context.Context, op string, f func(*session) error) error {
	for try := 0; ; try++ {
		conn, err := b.db.Conn(ctx)
		if err != nil {
			return b.fail(op, err)
		}
		s := &session{b.statements.Load(), b, conn, false}
		if err = b.tableCheck.check(ctx, s); err == nil {
			err = f(s)
		}
		account := b.loginIn(err)
		if is(err, rights...) || errors.Is(err, errUnseen) {
			account = b.loginOf(ctx, conn, err)
			drop(conn) // a connection keeps the rights with which it began
		} else if unusable(err) {
			drop(conn)
		}
		conn.Close()
		if nothingSent(err) && !s.used && try <= maxConns {
			continue
		}
		return b.failAs(account, op, err)
	}
}

// drop makes the pool throw the connection away.
func drop(conn *sql.Conn) {
	conn.Raw(func(any) error { return sqldriver.ErrBadConn })
}

func (s *session) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	rows, err := s.conn.QueryContext(ctx, text, args...)
	s.used = s.used || err == nil
	return rows, err
}

// exec runs a statement and returns how many rows it changed.
func (s *session) exec(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := s.conn.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	s.used = true
	return result.RowsAffected()
}
