package backend

import (
	"context"
	"time"
)

// A Backend is one process's access to a shared store of leases. The package documentation has the rules that
// all methods share. Methods are safe for concurrent use and return soon after ctx is done.
type Backend interface {
	// Acquire makes one attempt at the lease of each election bid on. It never waits for the holder to
	// release a lease. The store grants a bid if the lease is still [Bid.Expected].
	//
	// If the bidder's own nonce still holds the lease, since the answer to an earlier bid was lost, the
	// store grants it in a new term even if it has changed since Bid.Expected, unless a failover may
	// have lost a later grant.
	//
	// A refused bid's answer has the lease as it stands now. A grant clears any request,
	// and its term exceeds Bid.MinTerm.
	Acquire(ctx context.Context, bids []Bid) ([]Answer, error)

	// Renew extends leases by a write that the store refuses after another grant, a deposition, a deletion of
	// the record or a change of server. A read is not enough: a replica that has been cut off may answer it.
	// Each renewal gives the lease a fresh random heartbeat, and with it another Version, and is Granted if
	// and only if the store confirms that heartbeat.
	//
	// The answer has the request that is pending beside the lease.
	Renew(ctx context.Context, held []Held) ([]Answer, error)

	// Release ends leases at once: the record stays, vacant, with its term and with held[i].End as the
	// reason. Release leaves alone what is not held in that term, and returns no error for it. Term 0 means
	// whatever this Backend's nonce holds in that election. If it returns nil, none of the leases is held;
	// after an error any of them may be, and the manager calls again.
	Release(ctx context.Context, held []Held) error

	// Observe reads, and returns those of the leases in seen that have changed: in Term, Version, ObserveFor,
	// Holder, Request, MovedTo or MovedFrom. For a lease in seen that has only a name it always returns the
	// present one, even if the store has no record (Term 0). It does not wait.
	Observe(ctx context.Context, seen []Lease) (changed []Lease, err error)

	// Listen waits until Observe may find a change, and returns nil then. It may return too
	// early. When ctx ends, it returns ctx.Err(). The manager calls it only if Guarantees.Push is set.
	//
	// seen has all observed leases, and Listen must not miss a change of them since they were read. If
	// Guarantees.Poll is set, it may, since the manager polls as well: then seen has one lease of each
	// holder, and one vacant lease.
	Listen(ctx context.Context, seen []Lease) error

	// Request writes requests of an operator, or a nominee's acceptance, beside a lease. It
	// grants nothing, ends nothing, and leaves the Version alone. A request names a term
	// ([Request.Term]): if the election has another term by now, the store does not write
	// that request but still writes the others, and the error is [ErrStale].
	Request(ctx context.Context, requests []Request) error

	// List returns up to limit records of elections with names not less than from, in byte order.
	List(ctx context.Context, from string, limit int) ([]Record, error)

	// Announce writes this process's member record: one small record, whatever the number
	// of elections. The manager calls it once a TTL, and when its campaigns have changed.
	Announce(ctx context.Context, m Member) error

	// Members returns up to limit members with nonces not less than from, in byte order. It may leave out
	// members that have not announced themselves for two of their TTLs.
	Members(ctx context.Context, from string, limit int) ([]Member, error)

	// Guarantees says what this store can promise. The value never changes, and the call
	// does not use the store.
	Guarantees() Guarantees

	// Close frees what the Backend itself opened. It does not release leases. The manager
	// makes no other call at the same time. A second Close does nothing.
	Close() error
}

// A Candidate is a process that can hold a lease.
type Candidate struct {
	ID       string // chosen by the user, 1 to 255 bytes (see [CheckID]); may outlive the process
	Nonce    Nonce  // fresh for each manager
	Address  string // where to reach the process; up to 255 bytes, may be empty; this module never dials it
	Metadata string // free text, up to 4 KiB (see [CheckText])
}

// Guarantees is what a store can promise. The conformance suite fails for a false claim.
type Guarantees struct {
	Name string // of the backend, as it is registered

	// MinTTL and MaxTTL are the least and the greatest TTL. MinTTL is at least 1 ns. MaxTTL is 0 if there is
	// none, or if only the store knows it. Then the store refuses a longer bid with ErrDenied, or with
	// ErrInvalid if nobody can raise the limit.
	MinTTL, MaxTTL time.Duration

	Expiry Expiry // who decides that a lease has expired

	Push bool // Listen hears of changes
	Poll bool // Listen may miss changes: the manager must also read each lease after each expected renewal

	Exclusive    bool // two candidates never hold the same lease (manual assignment cannot promise it)
	DurableTerms bool // terms grow through the loss of any one server and of any record
}

// Expiry says who decides that a lease has expired.
type Expiry string

const (
	ByChallengers Expiry = "challengers" // a challenger that has observed the lease for its TTL
	ByKernel      Expiry = "kernel"      // the kernel, when the process ends
	ByOperator    Expiry = "operator"    // an operator, who edits the assignment
)
