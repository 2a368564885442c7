// Package backend is the contract between the election manager (package election) and a
// store, and the registry through which the key backend of a configuration chooses a store.
//
// A [Backend] grants each election's lease to at most one candidate at a time. It is passive: it starts no
// goroutine that outlives a call, sets no timer, retries nothing and calls nobody back. The manager owns
// every timer, retry, deadline and goroutine, and decides what an answer means. Only the store itself may end
// a lease by time (a session that ends, a key that expires).
//
//	answers, err := b.Acquire(ctx, []backend.Bid{{
//		Election: "billing", Candidate: me, TTL: 10 * time.Second, Expected: observed,
//	}})
//	if answers[0].Outcome == backend.Granted { … }
//
// The calls about leases take a batch, so that ten thousand elections cost a handful of round
// trips. Durations cross the interface, times of day never do: no clock of one machine is
// compared with another's. The times in a [Record] are for people.
//
// # Rules for both sides
//
//   - Names, ids, addresses and metadata have passed [CheckName], [CheckID] and
//     [CheckText]. Batches are not empty and name an election once. TTLs lie within
//     [Guarantees].
//   - One Backend serves one manager: calls with another [Nonce] are [ErrInvalid].
//   - For one election at most one of Acquire, Renew, Mark and Release is in flight.
//     All other calls may run at the same time.
//   - Every context has a deadline, except Listen's.
//   - A lease is renewed only before its deadline (see package election), with the TTL and
//     Renew of the bid that won it, and never again after it was lost.
//   - The manager does not change a slice during the call. A Backend does not keep it after
//     the call. Slices that a Backend returns belong to the caller.
//
// # Outcomes
//
// Each item of a batch has an outcome of its own; of Acquire, Renew and Mark, answer i
// belongs to item i. Only [Granted] is a win: this very call granted or extended the lease.
// A record that names the caller is no win. If a call returns an error, items without an
// outcome are [Unknown]: the store may apply them now, later, or never. So writes are
// conditional: Acquire on the lease that the bid expects, the others on holder and term.
//
// # Who expires a lease
//
// [Lease.ObserveFor] says what a challenger must do before it bids. 0: nothing, the lease is
// free. Positive: observe the lease unchanged for that long on its own clock, counted from
// the receipt of the first answer. [ExpiresInStore]: wait, the store will free the lease. The
// holder counts from the sending of its request. docs/design/contract.md has the argument.
//
// # Terms
//
// Each grant has a term greater than every earlier term of that election: through release,
// expiry, deleted records, restarts and a failover that loses writes. [NextTerm] is the rule.
//
// # Optional interfaces
//
// A [Preparer] first creates what its store needs, a [Preflighter] checks beforehand whether it
// could be granted a lease, a [Marker] keeps the marks of a migration, an [Inspector] describes
// its servers, a [Located] says where they are, an [Adopter] can release for a process that has ended.
//
// Package conformance has the suite that every Backend passes; backend/memory is the executable
// specification; packages clean, single and page help to write one.
package backend
