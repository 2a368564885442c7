// Package migration moves running elections from one store to another, and back, in
// rolling deployments, without ever having two leaders.
//
//	store, err := migration.New(migration.Options{From: etcd, To: mysql, Stage: migration.Both})
//	m, err := election.New(store, election.Options{})
//
// Each process is at a stage. It leads if and only if it holds
//
//	from   the old lease
//	both   the old lease and the new one
//	to     the new lease, once the old one is sealed
//
// Deploy all processes at both, check that none is left at from, and then deploy all at
// to. After that the configuration can name the new store alone. To go back, take the
// same steps in reverse. Processes at two neighbouring stages may run side by side. A
// program that elects by the old store and knows nothing of this package is at stage from.
//
// A member at to first gets both leases, and writes into the old store that the election has moved
// ([backend.Lease].MovedTo). After that no process can lead by the old store.
//
// Terms grow across the migration in both directions. At stage both a leadership has the same term in both
// stores, so that either can fence it. All members know the leader. An observer of the old store alone learns
// that the election has moved, and where to. Stages are part of the member records.
//
// # Limits
//
//   - At stage both, a grant costs a read and a grant in each store, and a renewal one in
//     each. If one store is down for longer than a TTL, nobody leads.
//   - Both stores must keep marks ([backend.Marker]). Those of this module do, except manual.
//   - If a store has lost a mark, to an older backup or in a failover, restart one member
//     at both and then at to.
//   - A member left at to after the fleet went back may move the election again, if the
//     old lease is free for a moment. Stop such members before you go from both to from.
//   - Do not move two elections of one name, from two stores of one name, to one store.
//
// docs/design/migration.md has the argument why two processes never lead at once.
package migration
