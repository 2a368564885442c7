// Package mysql keeps leases in MySQL 8.0 to 9.x, or MariaDB 10.6 or later, by the protocol of package lease.
//
//	store, err := mysql.Open(mysql.Options{DSN: "app:secret@tcp(db:3306)/app?tls=true"})
//	manager, err := election.New(store, election.Options{})
//
// All is in the rows of one table, which the first candidate makes if its account may CREATE. A program's own
// *sql.DB can be handed in. [Fence] protects transactions on the program's own tables.
//
//   - TTLs are 500 ms to [Options].MaxTTL, which is the same in all processes. After a failover, which may
//     lose what was acknowledged, each lease is observed for that long; so it is after each restart of a
//     server that does not keep every commit.
//   - Clocks of managers must tick at nearly the same rate. None is compared with another machine's.
//   - All members write to one server at a time, a single primary. Several writers (Galera or Group
//     Replication with several primaries, a proxy that spreads connections) are not supported.
//   - An old primary is fenced off (stopped, or super_read_only) before a new one accepts writes, and does
//     not come back within MaxTTL. The same holds for an older copy of the data. Replicas are read_only.
//   - Do not edit or delete rows while members run, and use Depose to end a leadership.
//
// docs/mysql.md is the operator's page. docs/design/mysql.md says how rows become items, and what happens in
// failovers; package lease has the protocol.
package mysql
