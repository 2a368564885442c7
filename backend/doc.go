// Package backend is the contract between the election manager and a store.
//
// Most programs never call it: they build a Backend (package
// backend/mysql, backend/memory, …) and hand it to election.New. Read on to
// write a backend, or to know what one is trusted with.
//
// # What a backend is
//
// A Backend is a shared store that grants each election's lease to at most one
// candidate at a time. It is passive: verbs over values. It starts no
// goroutine that outlives a call, sets no timer, retries nothing and calls
// nobody back. The manager owns every timer, retry, deadline and goroutine, and
// decides what an answer means. A backend decides nothing about time, except
// what its store decides by itself (a session that ends, a key that expires).
//
// Every method takes a batch, so that ten thousand elections cost a handful of
// round trips. Durations cross the interface, times of day never do: no clock
// of one machine is ever compared with another's. Times in a [Leadership] are for
// people to read.
//
// # What the manager guarantees
//
//   - Names, ids, addresses and metadata passed in have been checked with
//     [CheckName], [CheckID] and [CheckText]. Batches are not empty and name an
//     election once. TTLs lie within [Guarantees].
//   - All candidates of one Backend carry the same nonce. A Backend serves one
//     nonce; a second one is [ErrInvalid] (two managers on one Backend would both
//     own its session).
//   - For one election at most one of Acquire, Renew and Release is under way.
//     Different methods, and Observe and Listen, run at the same time.
//   - Every context has a deadline, except Listen's.
//   - A lease is renewed only before its own deadline, and never again after it
//     was lost: what comes after a loss is a Release and then a new Acquire.
//   - A lease is renewed with the TTL and Renew of the bid that won it. With a
//     shorter TTL, challengers who see it would watch for less than what the holder
//     may still trust from the renewal before.
//   - Slices passed in are not changed during the call. A Backend must not keep
//     them after it. Slices returned belong to the caller.
//
// # Outcomes
//
// Outcomes are per item. A batch of a thousand with one locked row renews the
// other 999. Answer i belongs to item i. An error leaves the items without an
// outcome [Unknown]: the store may or may not have done it, now or later. The
// manager never takes Unknown for a win, nor for a loss before the deadline, and
// does not resolve it by reading: it tries again or releases.
//
// Only [Granted] is a win, and it means that this very call granted or extended
// the lease, and renewed whatever session the lease hangs on. A record that
// happens to name the caller is none (hazard: a grant that was applied late is
// about to be taken over by a challenger that watched it).
//
// A request can arrive late: after its call has failed, after a newer call, after
// a failover of the store. So each write must be pinned to what it means:
//
//   - Acquire, to the very lease it bids over: term, heartbeat and Ref.
//   - Renew, to holder, nonce and term, on the server that granted.
//   - Release, to holder, nonce and term, on the server that granted. Release
//     with term 0 first finds what this nonce holds and then ends exactly that; it
//     must have found it before its context ends, since a later grant of the same
//     nonce would be found otherwise.
//
// # Who expires a lease
//
// [Lease.ObserveFor] says what a challenger must do before it bids:
//
//   - 0: nothing. The lease is free, or the reader's own leftover.
//   - a time: watch it. The manager bids only after it has itself seen the lease
//     unchanged (same Term, Heartbeat and Ref) for that long on its own monotonic
//     clock, counted from when the first such answer was received. No clock of
//     the store is asked. The bid carries the watched lease in [Bid.Expected], and
//     the store must refuse it if anything in it has changed.
//   - [ExpiresInStore]: nothing helps. The store will free it, which shows as a
//     change. A bid meanwhile may leave a standing bid (a queued node); it means
//     nothing until an Acquire is answered Granted, and Release withdraws it. It
//     may be lost: the manager bids once more when the lease, still not to be
//     watched, has another Term, Holder or Ref.
//
// The holder, on the other side, counts from the moment before its request left.
// The two anchors are opposites on purpose: the holder counts from the earliest
// moment at which the store can have granted, the challenger from the latest at
// which the store can have renewed.
//
// # Terms
//
// Each grant has a term greater than all earlier terms of that election, for
// ever: through release, expiry, deleted records, restarts and a failover that
// loses the last writes. [NextTerm] computes it; the last term is kept in the
// store. A renewal does not change the term.
//
// # Hearing of changes
//
// Observe reads and returns at once. Listen waits until it may pay to Observe
// again. They are two verbs, not one that blocks, because a store that must be
// read at the right moments (MySQL, a third of a TTL apart) may at the same time
// have a notification lock to wait for. One call could do both only by cutting the wait
// short at every reading; GET_LOCK takes whole seconds on MySQL (0.5 rounds to
// 1), and cancelling it leaves the statement running in the server. Where whoever
// tells of a change does not say of which, a [Notifier] makes a Listen of Observe.
//
// # What a Backend may also be
//
// A [Preflighter] says beforehand whether it could be granted a lease, for migrations. An
// [Inspector] explains its servers, to people.
//
// # Testing
//
// Package conformance holds the suite that every backend must pass.
// backend/memory is the executable specification. It uses what is here for every
// backend to use: [SingleOwner], [NextTerm], [Record.EndLeadership], [Notifier] and [Page].
package backend
