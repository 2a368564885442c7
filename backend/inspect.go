package backend

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Located is a Backend that says where its store is, for people: its hosts, and the schema,
// prefix or directory there. The text has no secret and no account. A Backend that wraps
// others says where those are.
type Located interface{ Location() string }

// Where returns the location of b's store, safe to print on a terminal, or "" if b is not
// [Located].
func Where(b Backend) string {
	if l, ok := b.(Located); ok {
		return Clean(l.Location(), 255, false)
	}
	return ""
}

// Place returns a location: these addresses, and the place within the store. Of a URL it keeps
// only the host, since people put passwords into the rest.
func Place(within string, addresses ...string) string {
	hosts := make([]string, len(addresses))
	for i, a := range addresses {
		if _, rest, ok := strings.Cut(a, "://"); ok {
			a, _, _ = strings.Cut(rest, "/")
			a, _, _ = strings.Cut(a, "?")
		}
		hosts[i] = a[strings.LastIndexByte(a, '@')+1:]
	}
	return strings.Join(hosts, ",") + "/" + strings.Trim(within, "/")
}

// A Diagnostic is a fact about a store, mostly about its servers, on which leases depend.
type Diagnostic struct {
	What    string // such as "durability"
	Text    string // for people; safe to print on a terminal
	Warning bool   // an operator should read it
	Fatal   bool   // until an operator mends it, no candidate with this configuration is elected; a warning, too
}

// Diagnosticf returns a Diagnostic with a text formatted by [fmt.Sprintf], made safe to print
// and cut to 1,000 bytes, since parts of it may come from a server.
func Diagnosticf(warning bool, what, format string, args ...any) Diagnostic {
	return Diagnostic{What: what, Text: Clean(fmt.Sprintf(format, args...), 1000, true), Warning: warning}
}

// String returns the diagnostic as one line, which says if it is a warning.
func (f Diagnostic) String() string {
	line := f.What + ": " + f.Text
	if f.Warning {
		line = "WARNING " + line
	}
	return line
}

// An Inspector is a Backend that can describe its servers. The command elect doctor asks it.
type Inspector interface {
	// Inspect asks the servers for their versions, settings and health, and explains what
	// matters for leases with this TTL that are renewed so often. It writes nothing. Where
	// the account lacks a right that only Inspect needs, a Diagnostic names the right. An
	// error means that the store could not be read at all; it is classed like any other.
	Inspect(ctx context.Context, ttl, renew time.Duration) ([]Diagnostic, error)
}
