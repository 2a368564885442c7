package backend

import "context"

// A Preflighter is a Backend whose store can say beforehand whether it would let this process
// win leases. Package migration asks before a process that enters the second store takes a
// lease of the first.
type Preflighter interface {
	// Prove makes the store check what grants for these bids need, by writes that cannot
	// take effect: no lease, record or request changes, whoever holds it. What is made is
	// there in any case once somebody has bid, such as the parents of nodes or this process's
	// session. Of a bid, Election, Candidate and TTL matter.
	//
	// There is one error for each bid: nil if nothing but the lease itself stands in the
	// way, or classed like those of Acquire. It proves nothing about the next minute: rights
	// may be taken away.
	Preflight(ctx context.Context, bids []Bid) []error
}
