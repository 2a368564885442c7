// Package lease is the lease protocol over versioned items, written once. A [Driver] gives it a
// store: New(driver) is a backend.Backend.
//
// Each election has a lasting [Record] that names its holder. Each process has one [Session]: its
// member record, into which every renewal writes a fresh random heartbeat for all leases that the
// process holds. So renewing a thousand leases costs no more than renewing one. One [Meta] item
// counts the records, so that deletions are noticed.
//
//   - A renewal writes the session, on condition that it is as the renewal before left it and that
//     the records are those that were granted.
//   - A challenger watches record and heartbeat for the holder's TTL on its own clock, and takes
//     over by a change that requires both to be as it has just read them once more.
//   - A session that is dead or missing frees nothing. Only the watch does.
//
// docs/design/lease.md has the argument that two processes never lead at once, and
// docs/design/new-store.md how to write a driver. Package leasetest has what a driver must pass.
package lease
