// Package mysql keeps leases in MySQL 8.0 to 9.x, or MariaDB 10.6 or later.
//
//	store, err := mysql.Open(mysql.Options{DSN: "app:secret@tcp(db:3306)/app?tls=true"})
//	manager, err := election.New(store, election.Options{})
//
// A candidate creates the tables if its account may ([Backend.Prepare]); the first election then
// waits for the greatest TTL, as after a failover. With [CreateTables] or "elect schema --apply"
// it need not wait.
//
// There is at most one leader, and terms only grow, as package backend specifies. No clock of
// the server decides who leads. All options are in [Options]; [Fence] protects data in the same
// server from a leader that was stopped and writes late.
//
// # Conditions
//
//   - All members write to one server at a time, a single primary. Several writers (Galera or
//     Group Replication with several primaries, a proxy that spreads connections) are not
//     supported. Servers that alternate are detected and reported.
//   - An old primary is fenced off (stopped, or super_read_only) before a new one accepts
//     writes, and does not come back within the greatest TTL. A former primary that is promoted
//     again later has all that its successor acknowledged, or another @@server_id.
//   - Replicas are read_only. A read from a read-only server is an error and never counts as
//     observation.
//   - The greatest TTL, and a new table, have reached the replica before they are relied on.
//
// Then even a failover that loses the last writes elects no second leader. It costs one
// greatest TTL (15 s by default) without a leader.
//
// # Limits
//
//   - The least TTL is 500 ms. The greatest is in the table: 15 s unless an operator raises it.
//   - FLUSH TABLES WITH READ LOCK, which some backups run, stops all renewals. If it lasts
//     longer than the TTL, the leader steps down.
//   - The binary log must be ROW or MIXED, or off.
//   - A server that does not keep every commit (innodb_flush_log_at_trx_commit other than 1, or
//     a binary log with sync_binlog other than 1, MariaDB's default) costs one greatest TTL
//     without a leader after each restart.
//   - An operator must not delete rows, or drop tables, while members run.
//
// # Rights
//
// A member needs three rights on three tables. Only the caller of [CreateTables] needs CREATE:
//
//	GRANT SELECT, INSERT, UPDATE ON app.election_lease  TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_term   TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_member TO 'app'@'%';
//
// An observer needs SELECT. A user of [Fence] needs SELECT on election_term. Give no account
// SUPER: it can write to read-only servers. Every account that can write these tables can
// depose or impersonate any leader.
//
// # More
//
// docs/mysql.md is the page for operators: tables, queries, timings, error messages.
// docs/design/mysql.md explains the protocol and why it is safe.
package mysql
