package backend

import "context"

// A Preflighter is a Backend whose store can say beforehand whether it would let this process
// win leases. Package migration asks before a process that enters the second store takes a
// lease of the first.
type Preflighter interface {
	// Preflight has the store check what grants of these bids need, by writes that cannot
	// take effect: no lease, record or request changes. It may make what any bid makes, such
	// as the parents of nodes or this process's session. Only Election, Candidate and TTL of
	// a bid matter.
	//
	// There is one error for each bid: nil if nothing but the lease itself stands in the
	// way, or an error classed like those of Acquire. Rights may be revoked a moment later.
	Preflight(ctx context.Context, bids []Bid) []error
}
