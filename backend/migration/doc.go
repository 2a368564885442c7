// Package migration moves running elections from one store to another, and back,
// in rolling deployments, without ever having two leaders.
//
//	store, err := migration.New(migration.Options{From: etcd, To: mysql, Stage: migration.Both})
//	manager, err := election.New(store, nil)
//
// # The road
//
// Each process is at a stage, and leads if and only if it holds
//
//	from   the old lease
//	both   the old lease and the new one
//	to     the new lease, once the old one is sealed
//
// Deploy all processes at both, look whether they are, then deploy all at to. Then
// the old store can go, and the configuration names the new one alone. To go back,
// go the same steps the other way. A program that elects by the old store and knows
// nothing of this package, in whatever language, is at stage from.
//
// # Why there are never two leaders
//
// Stages that are next to each other share a lease: from and both the old one, both
// and to the new one. The stores see to it that nobody else holds that.
//
// From and to share none, and a program at from may wake up late, long after
// everybody has gone on. So who is at to does not lead by the new lease until the
// old election is sealed: it gets both leases, as at stage both; writes into the
// old store that the election has moved ([backend.Lease].MovedTo), which lets
// nobody at from be granted it any more; and only when that is confirmed writes
// into the new store that it did so ([backend.Lease].MovedFrom). From then on the
// new lease is enough for members at to, and the old store is not asked about it.
// While there is no such record, and the old lease is somebody else's, a member at
// to does not lead; its events name who does.
//
// Going back, a member at both that has got both leases first clears the record, and
// seals the new store in turn, since somebody there may wake up late as well; and only
// when that is confirmed breaks the seal of the old one. So while the record stands
// the seal does:
//
//   - Seal and record are written only by who holds the lease that they are beside,
//     in its term, as a renewal is. A request that arrives late, after another grant,
//     is refused.
//   - A bid at to is granted over exactly the lease that was seen, with its record. If
//     that has been cleared since, it is refused.
//   - Who seals has won the old lease first. So nobody at from still trusts it.
//   - An election that was sealed in favour of a third store is left alone, and a
//     record counts for nothing in a store that was sealed itself.
//   - Marks call stores by names ([Options].FromName, ToName). Where the new store is
//     called like the one that the election came from once, and is another one, nobody
//     leads until it has a name of its own: a seal in its favour would be the way back
//     to who is still on that earlier road.
//
// An operator may vouch that nobody elects by the old store any more, where it is gone or
// keeps no seal ([Options].Unsealed). Then a record of that word is written, "unsealed" and
// the old store's name, before anybody leads by the new lease alone. It is no seal to who was
// not given the word. Who goes back clears it and seals the new store, as ever; and the
// word counts only while that is not sealed. That holds once somebody has led by it: until
// then there is no record, so stop such members before you go back.
//
// Who is still at to when the fleet has gone back needs both leases, as at the beginning of
// the road. It leads beside nobody, if the old store excludes others (manual without a
// directory does not: the named machine's own process must have ended). But if the old lease
// is free for a moment it may win it, and then it moves the election once more, as it was
// told to: stop such members before you go on from both to from.
//
// A process that enters the road bids for no old lease before the new store has been
// written, as a member, and has said that nothing but the lease stands in the way of a grant
// there ([backend.Preflighter]). Who holds one lease of two does not lead, and releases it within
// the same call, for which there is time left if the new store hangs.
// Losing either lease is losing. Trust is the lesser time of the two. Each half is
// watched for as long as its own store demands.
//
// # Terms
//
// A leadership at stage both has one term in both stores, greater than all that either
// knows, so that either can fence it ([mysql.Fence] works on the way). At to the
// term is the new store's, and greater than that of the old lease. So terms grow
// across the switch in both directions, unless the old store has none (legacy
// layouts), or was left unsealed: then it was not asked.
//
// # Who leads
//
// Everybody knows. At both and to the new lease names the leader; as long as that is
// vacant, the old one does if its holder is at from. Who looks at the old store alone is told
// that the election has moved, and where. Stages stand in the member
// records: [backend.Backend.Members].
//
// # Limits
//
// Each grant at both costs a look at both stores and a grant in each; each renewal
// one in each. If one of the two is down, nobody leads at both for longer than a
// TTL. The old store must keep the seal as it keeps a lease: after it was restored
// from an older backup, or has lost its last writes in a failover, seal again by
// restarting one member at both, and then at to. The same holds for the new one, which
// keeps the record. All members must call the stores by the same names, at all stages; a
// store that was left unsealed needs a name of its own to be gone back to by a road of its
// own. Do not move two elections of one name from two stores of one name to
// the same place. Both stores must be able to move
// ([backend.Guarantees].Marks). Those of this module can, but for manual without a
// directory, which keeps nothing. With Unsealed a store that cannot, such as one that
// is gone, can be left nonetheless, by who knows that nobody elects by it any more. If it is
// gone after the fleet had come back to it once, the seal of the new store has to be taken
// off by hand.
//
// [mysql.Fence]: https://pkg.go.dev/github.com/go-election/go-election/backend/mysql#Fence
package migration
