package mysqltable

import (
	"context"
	"database/sql"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Prove implements [backend.Preflighter]: that of the leases beside the table, and the
// statements that take and make a row of it. No holder is NULL.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := b.inner.Preflight(ctx, bids)
	err := b.on(ctx, "prove", func(conn *sql.Conn) error {
		for _, template := range []string{takeSQL, stealSQL} {
			args := []any{"", nil, "", nil, vacated}
			if template == stealSQL {
				args = append(args, b.seconds())
			}
			if _, err := conn.ExecContext(ctx, b.text(template), args...); err != nil {
				return err
			}
		}
		_, err := conn.ExecContext(ctx, b.text(preflightSQL))
		return err
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}
