package mysqltable

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect says of the server what package mysql does: the leases of ours are in tables of
// that package there, and the other programs' table is beside them.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	return b.inner.Inspect(ctx, ttl, renew)
}
