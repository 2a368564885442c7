package backend

import "context"

// A Marker is a Backend whose store keeps the marks of a migration. [Guarantees].Marks says
// whether this layout of the store has room for them. Package backend/migration calls Mark.
type Marker interface {
	// Mark writes MovedTo and MovedFrom, and renews the leases as Renew does. On every store
	// Version changes.
	Mark(ctx context.Context, held []Held) ([]Answer, error)
}
