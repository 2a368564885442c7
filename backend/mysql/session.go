package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
)

// A session is one connection for the length of one call. A write and the
// reading that confirms it go through the same one.
type session struct {
	*statements
	backend *Backend
	conn    *sql.Conn
	used    bool // the server has answered on this connection in this call
}

// on runs f with a connection. A connection that had died while it was idle says
// so before anything is sent; then the next one is tried, until one is new.
func (b *Backend) call(ctx context.Context, what string, f func(*session) error) error {
	select { // one at a time, so that there is always a connection for a renewal
	case b.mutex <- struct{}{}:
		defer func() { <-b.mutex }()
	case <-ctx.Done():
		return b.fail(what, ctx.Err())
	}
	return b.callNow(ctx, what, f)
}

// atOnce is on for renewals, which wait for nobody.
func (b *Backend) callNow(ctx context.Context, what string, f func(*session) error) error {
	for try := 0; ; try++ {
		conn, err := b.db.Conn(ctx)
		if err != nil {
			return b.fail(what, err)
		}
		s := &session{b.statements.Load(), b, conn, false}
		if err = b.tableCheck.check(ctx, s); err == nil {
			err = f(s)
		}
		who := b.loginIn(err)
		if is(err, rights...) || errors.Is(err, errUnseen) {
			who = b.loginOf(ctx, conn, err)
			drop(conn) // a connection keeps the account, and rights on its schema, for as long as it lives
		} else if unusable(err) {
			drop(conn)
		}
		conn.Close()
		if nothingSent(err) && !s.used && try <= maxConns {
			continue
		}
		return b.failAs(who, what, err)
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
