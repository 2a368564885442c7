package backend

import (
	"context"
	"fmt"
	"time"
)

// A Preparer is a Backend whose store needs something before the first candidate can bid,
// such as tables. A manager that campaigns calls Prepare before its first other call, and
// after an error before the next one. A manager that only observes never calls it.
type Preparer interface {
	// Prepare makes what is missing, if the account may make it. If it may not, Prepare returns nil: the
	// calls that follow say what an operator must do. Errors are classed as elsewhere.
	Prepare(ctx context.Context) error
}

// A Preflighter is a Backend whose store can say beforehand whether it would let this process win leases.
// Package migration asks the second store before a process takes a lease of the first.
type Preflighter interface {
	// Preflight has the store check what grants of these bids need, by writes that cannot
	// take effect: no lease, record or request changes. It may make what any bid makes, such as the parents
	// of nodes or this process's session. Only a bid's Election, Candidate and TTL matter.
	//
	// There is one error for each bid: nil if nothing but the lease itself stands in the
	// way, or an error classed like those of Acquire. Rights may be revoked a moment later.
	Preflight(ctx context.Context, bids []Bid) []error
}

// A Marker is a Backend whose store keeps the marks of a migration: see backend/migration.
type Marker interface {
	// Mark sets the marks of the leases to those of held (see [Lease]), and renews them as Renew
	// does. On every store it changes the Version.
	Mark(ctx context.Context, held []Held) ([]Answer, error)
}

// A Located is a Backend that says where its store is, for people: its hosts, and the schema, prefix or
// directory there. The text has no secret and no account. A Backend that wraps others says where those are.
type Located interface{ Location() string }

// A Diagnostic is a fact about a store, mostly about its servers, on which leases depend.
type Diagnostic struct {
	What    string // such as "durability"
	Text    string // for people; safe to print on a terminal
	Warning bool   // an operator should read it
	Fatal   bool   // nobody with this configuration is elected until it is mended; a warning, too
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
	// Inspect asks the servers for their versions, settings and health, and explains what matters for leases
	// with this TTL that are renewed so often. It changes no lease, record or request. Where the account
	// lacks a right that only Inspect needs, a Diagnostic names the right. An error means that the store
	// could not be read at all, perhaps for what a Diagnostic says; it is classed like any other.
	Inspect(ctx context.Context, ttl, renew time.Duration) ([]Diagnostic, error)
}

// An Adopter is a Backend that can act for another process, which has ended: package electionguard
// releases what a process has led the moment it is certainly dead.
type Adopter interface {
	// Adopt makes this Backend act for the process that had this nonce. held is what that process
	// may have held; Term 0 stands for a bid without an answer. Only readings may come before it,
	// and only Release and Close follow. It does not use the store. The caller is certain that the
	// process has ended; the store may still receive what the process has sent.
	Adopt(nonce Nonce, held []Held) error
}

// CanAdopt returns nil if b can act for another process, and otherwise an error that says so. A Backend that
// is made of others has a method CanAdopt, which answers for those of them that are used.
func CanAdopt(b Backend) error {
	if made, ok := b.(interface{ CanAdopt() error }); ok {
		return made.CanAdopt()
	}
	if _, ok := b.(Adopter); !ok {
		return fmt.Errorf("backend %s cannot release for a process that has ended", b.Guarantees().Name)
	}
	return nil
}
