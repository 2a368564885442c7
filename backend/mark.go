package backend

import "context"

// A Marker is a Backend whose store keeps the marks of a migration. Package backend/migration
// calls Mark.
type Marker interface {
	// Mark sets the marks of the leases to those of held (see [Lease]), and renews them as Renew
	// does. On every store it changes the Version.
	Mark(ctx context.Context, held []Held) ([]Answer, error)
}
