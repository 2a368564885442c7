package mysqltable

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect reports what package mysql reports of the server: the leases are in a table of that
// package, beside the other programs' table.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	return b.inner.Inspect(ctx, ttl, renew)
}
