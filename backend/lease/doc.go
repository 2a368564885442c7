// Package lease is the lease protocol over versioned items, written once. A [Driver] gives it a store, and
// New(driver) is a backend.Backend. docs/design/new-store.md tells how to write a driver; package leasetest
// has what it must pass. The models in lab/models search the protocol for two leaders.
//
// # Items
//
// An election's [Record] names its holder, the TTL and the term. It lasts for ever. Grants, releases and
// operators' requests write it; renewals do not. A grant and a release give it a fresh random heartbeat, a
// request keeps it.
//
// A process has one [Session]. A renewal writes a fresh random heartbeat into it, which stands for all leases
// that the process renewed together, so a thousand leases cost no more than one. A lease that was not renewed
// with them is listed apart with the heartbeat that it had: so a lease whose function hangs expires although
// its process goes on. A session has a generation. A record names the generation that renews it; another
// generation renews nothing of it.
//
// One [Meta] item counts the records that were ever made, and has the greatest TTL that was granted.
//
// A challenger compares the lease's Version. It is made of the record's heartbeat, of when record and session
// were created, and of the session's heartbeat for this election.
//
// # What two processes can each believe
//
// A holder trusts its lease for one TTL, from the moment at which it sent a grant or a renewal that was
// answered. A challenger takes over when it has seen one Version for a TTL, from the moment at which it
// received it. No clock is compared with another; they must only tick at nearly the same rate. Let k be the
// last renewal that the holder trusts, and t a takeover. The store orders both.
//
//   - k before t: t requires the session as the challenger has just read it, and that reading showed the
//     Version that it has watched for a TTL. Each renewal that the holder trusts writes another heartbeat, so
//     the watched one is that of k or a later one. It was received after k was sent. When t comes, a TTL
//     later, the holder's trust has ended.
//   - k after t: t has written the record. A renewal checks the records in the same change, or compares them
//     after it. It finds another version, so the holder does not trust k.
//
// With a grant in the place of k, the record's fresh heartbeat is what the challenger must watch. It would
// not do to require the session's newest version alone: a session goes on changing while it renews other
// leases. A session that is missing frees nothing, since its process may hold a lease that was granted after
// the last heartbeat.
//
// # Readings
//
// Records, sessions and the meta item may be read one after the other. What is read later is not older. A
// challenger counts from the receipt of the last of them, and its change requires each as it was read. If a
// record is missing, the meta item is read after it, never before: a record that was deleted in between would
// look as if it had never been. The grant requires that the record is still missing and the meta item still
// as it was. If another store has answered between two readings, the call fails.
//
// # When a lease is free
//
// To watch a lease is to see the same Version of it all the time; package election says observe. An epoch is
// the identity of the store that answers. A store that loses acknowledged writes within one has gone back.
//
//   - Its record is vacant: at once.
//   - Its record is held, with a session or without: after its Version was watched for the holder's TTL.
//   - The same, if the store knows that the process of that session has ended: at once. If it knows that it
//     lives: never.
//   - It has no record, and no record was ever deleted: at once.
//   - It has no record, and its own or another was deleted: once that was watched for the greatest TTL.
//   - Its record is of another epoch, from before the store went back, of an older term than this process has
//     read, edited, or invalid: after it was watched for the greatest TTL, even if it is vacant.
//
// What this process was granted itself and has not released, it may bid for at once, in a new term.
//
// # Late requests
//
// A request can arrive late, or twice. Every change requires what it changes, so only its first copy has an
// effect. If the answer says that the conditions did not hold, a copy may have come first: the process reads,
// and writes once more over what is there. A renewal whose answer was lost is not trusted; the next one goes
// on from it.
//
// A bid whose answer was lost may still be granted later. A release prevents that: it writes one item again,
// with the same value, so that it no longer has the version that the bid requires. That is the record,
// whoever holds it, or the meta item if there is no record. If another process holds the record, its next
// renewal finds a new version with the heartbeat that it knows, and goes on.
//
// A late copy of a session's creation could make the session again after it was deleted, with a heartbeat
// that somebody has seen before. So the Version contains when the session was created, and the process writes
// another generation over it.
//
// # A lost session
//
// The store or an operator may delete a session at any time. Challengers then see another Version and begin
// anew. The holder's next renewal finds the session missing. It makes one of another generation, and moves
// each lease to it by writing the record, if that is as it was granted. Whichever comes second, this or a
// takeover, finds another version. The same is done when a session would become too large for the store.
//
// # Deleted records
//
// A grant that makes a record counts it in the meta item, in the same change. While there are fewer records
// than were made, an election without a record is watched for the greatest TTL, because somebody may still
// trust the deleted one. The Version of such an election contains how many records were ever deleted: each
// deletion begins the watch anew. When it ends, nobody trusts a deleted record any more, and the grant that
// follows counts the records anew. If the meta item itself is missing or damaged while there are records,
// nobody knows how many were made, and the greatest TTL is that which the store allows. A process that starts
// after all items were deleted cannot know that somebody leads.
//
// # Restored and edited stores
//
// An epoch stands for a cluster, a server or a table. Within one the store keeps what it has acknowledged, or
// its driver says that it went back. A record of another epoch may lack the last grant: it is watched for the
// greatest TTL, and the next term jumps. If a store can lose writes without an operator's pause, as in a
// failover (Limits.Loses), the greatest TTL is that which the store allows, because the meta item may be lost
// as well. An operator who restores a copy starts it no sooner than the greatest TTL after the end of the old
// store. A process that reads another epoch than before believes nothing of that store until the greatest TTL
// has passed: it may be the wrong one, with leaders of its own, while those of the one before go on.
//
// A record contains its election's name and, where the store counts writes, the number of its write. A value
// that somebody copied, edited or put back hardly ever matches: nobody renews it, and all watch it for the
// greatest TTL. Whoever can write to the store can depose any leader.
//
// # Announcements
//
// A renewal announces its process. A follower writes its session once a TTL. That write keeps all heartbeats,
// so it renews nothing.
//
// # What is remembered
//
// The cache has items as they were read or told last. By it, Observe may answer that leases have changed, and
// Acquire and Release may guess what is there; the change requires the versions, and the values too where a
// restored store may count versions anew. That a lease is unchanged is never an answer of the cache. An older
// item never replaces a newer one. An election that was not read for an hour is forgotten, as if the process
// had started since.
//
// # Terms
//
// backend.NextTerm makes them. The term jumps wherever the last grant may be lost: also for an election
// without a record that is free, if any record was ever deleted. A term that is ahead of the clock grows with
// time, or else a server that comes back after its successor has lost a grant would grant that term again.
package lease
