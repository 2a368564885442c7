// Package beside elects by two things at once: a lease of this module, and a lock that programs
// without this module go by, such as a row of their table.
//
// A member leads if and only if it holds both. Package backend/mysqltable is such a pair.
//
// The lease (the inner Backend) excludes the other members of this module. Terms, history, requests,
// members, marks and notifications are the inner Backend's and are written nowhere else. The lock
// excludes the other programs. A [Lock] knows nothing of leases: it is told in which term it is taken.
//
// # What each process may believe
//
// A member believes that it leads until the earlier of two moments: the one until which the inner
// lease is valid, and the one until which the lock is certain to keep other programs away. The Lock
// reads the second from what is written there, after each write; it is never inferred from the write.
// Both count from before the call. So the member has stopped before either half can go to somebody else.
//
// Another program believes what it has always believed: that it leads while the lock names it. A member
// takes the lock from such a program only if the lock's own rule says that its time has passed, and only
// after the member has seen it unchanged for [State].Watch on its own clock. The taking is pinned to the
// state that was seen, so a program that renews in between keeps the lock.
//
// # The order
//
// The inner lease is taken first, the lock second. So at most one member of this module is at the lock,
// and it writes its term there, which no other grant shares. A statement that arrives late, of any other
// grant, finds another term and changes nothing. A member that gets the lease and not the lock gives the
// lease back within the same call.
//
// Releasing goes the other way: the lock first, then the inner lease. The inner lease tells the
// followers, and when it does both halves are free, so that the next one can lead at once.
// Neither order makes two leaders, since a manager releases only after its leader has stopped. But with
// the other order a follower bids while the lock is being given back: it changes under its hands, and the bid
// is refused. And other programs would starve: the lock would pass from member to member, and never be free.
//
// # If a process ends in between
//
//   - After the lease and before the lock: the lock is as it was. The lease expires by the inner
//     Backend's rules, and the next member takes both.
//   - With both: the lease expires, and the lock names the lease's last term. That term's leader is the
//     one that has expired, so the next member takes the lock at once. Another program takes it by its
//     own rule, which the dead member's trust has respected.
//   - After the lock was given back and before the lease: another program takes the lock and leads. The
//     members see that at once, and the lease expires beside it.
//   - A grant that nobody has an answer to may leave the lock in an earlier term. It then counts as
//     another program's, and is watched as such.
//
// # Readings
//
// The lock is read first, the lease second. A member that takes both changes the lease before the lock,
// so what it has written between the two readings does not look like another program's. If a lock shows
// a term that the lease does not, both may have changed in between, and both are read again.
//
// A mark that the election has moved to another store ([backend.Lease].MovedTo) is also a seal of the
// lock, which no other program can break by its own rule. The seal is written before the mark and
// removed after it: where there is a mark there is a seal.
//
// Nothing here makes other programs better: one that stops renewing unawares may still believe that it leads.
package beside
