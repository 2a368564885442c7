// Package mysql keeps leases in MySQL 8.0 to 9.x, or MariaDB 10.6 or later, by the protocol of package
// lease.
//
//	store, err := mysql.Open(mysql.Options{DSN: "app:secret@tcp(db:3306)/app?tls=true"})
//	manager, err := election.New(store, election.Options{})
//
// All is in the rows of one table, which the first candidate makes if its account may CREATE. A
// program's own *sql.DB can be handed in. [Fence] protects transactions on the program's own tables.
//
//   - TTLs are 500 ms to [Options].MaxTTL, which is the same in all processes. After a failover, which
//     may lose what was acknowledged, each lease is observed for that long.
//   - Clocks of managers must tick at nearly the same rate. No clock of one machine is compared with
//     another's.
//   - All members write to one server at a time, a single primary. Several writers (Galera or Group
//     Replication with several primaries, a proxy that spreads connections) are not supported. Servers
//     that take turns are detected.
//   - An old primary is fenced off (stopped, or super_read_only) before a new one accepts writes, and
//     does not come back within MaxTTL. The same holds for an older copy of the data. Replicas are
//     read_only.
//   - A server that does not keep every commit (innodb_flush_log_at_trx_commit other than 1, or a binary
//     log with sync_binlog other than 1, MariaDB's default) costs MaxTTL without a leader after each
//     restart.
//   - FLUSH TABLES WITH READ LOCK, which some backups run, stops all renewals. The binary log must be ROW
//     or MIXED, or off.
//   - Do not edit or delete rows while members run, and use Depose to end a leadership.
//
// docs/design/mysql.md says how rows become items, and what happens in failovers;
// package lease has the protocol. docs/mysql.md is the operator's page.
package mysql
