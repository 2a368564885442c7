package mysqltable

import (
	"context"
	"database/sql"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Preflight implements [backend.Preflighter]: it runs the preflight of the leases, and the
// statements that take and insert a row of the table. They change nothing: no holder
// is NULL, and the INSERT selects no row.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := b.inner.Preflight(ctx, bids)
	err := b.call(ctx, "preflight", func(conn *sql.Conn) error {
		for _, template := range []string{takeSQL, takeExpiredSQL} {
			args := []any{"", nil, "", nil, vacated}
			if template == takeExpiredSQL {
				args = append(args, b.patienceSeconds())
			}
			if _, err := conn.ExecContext(ctx, b.statement(template), args...); err != nil {
				return err
			}
		}
		_, err := conn.ExecContext(ctx, b.statement(preflightSQL))
		return err
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}
