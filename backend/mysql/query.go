package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
)

// Query sends statements about another table in one message, on a connection of this Backend's own, and returns the
// rows of all results. The session is in UTC, in strict mode, and at READ COMMITTED. A message may reach the server
// twice, so that statements must mean the same the second time. Package mysqltable uses it.
func (b *Backend) Query(ctx context.Context, statements ...string) ([][][]byte, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	_, err := d.Place(ctx) // the schema in which connections are
	if err != nil {
		return nil, d.Fail(err)
	}
	rows, err := d.query(ctx, func() []string { return statements })
	if cause, ok := errors.AsType[*mysql.MySQLError](err); ok && cause.Number == errLockTimeout {
		err = fmt.Errorf("%w: another session keeps a row locked: %w", backend.ErrUnavailable, cause)
	}
	return rows, d.FailWith(err, func(error) string { return "" })
}
