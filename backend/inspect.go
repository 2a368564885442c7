package backend

import (
	"context"
	"time"
)

// A Located is a Backend that says where its store is, for people: its hosts, and the schema,
// prefix or directory there. The text has no secret and no account. A Backend that wraps
// others says where those are.
type Located interface{ Location() string }

// A Diagnostic is a fact about a store, mostly about its servers, on which leases depend.
type Diagnostic struct {
	What    string // such as "durability"
	Text    string // for people; safe to print on a terminal
	Warning bool   // an operator should read it
	Fatal   bool   // until an operator mends it, no candidate with this configuration is elected; a warning, too
}

// String returns the diagnostic as one line, which says if it is a warning.
func (d Diagnostic) String() string {
	line := d.What + ": " + d.Text
	if d.Warning {
		line = "WARNING " + line
	}
	return line
}

// An Inspector is a Backend that can describe its servers. The command elect doctor asks it.
type Inspector interface {
	// Inspect asks the servers for their versions, settings and health, and explains what
	// matters for leases with this TTL that are renewed so often. It changes no lease, record or request. Where
	// the account lacks a right that only Inspect needs, a Diagnostic names the right. An
	// error means that the store could not be read at all; it is classed like any other.
	Inspect(ctx context.Context, ttl, renew time.Duration) ([]Diagnostic, error)
}
