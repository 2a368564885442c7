// Package mysql keeps leases in MySQL 8.0 to 9.x, or MariaDB 10.6 or later.
//
//	store, err := mysql.Open(mysql.Options{DSN: "app:secret@tcp(db:3306)/app?tls=true"})
//	manager, err := election.New(store, nil)
//
// Make the tables once, with [CreateTables]. Those that schema.sql makes by hand belong to
// no known server: the first election in them is made as after a failover.
//
// # What is promised, and what must be true for it
//
// One leader at most, and terms that only grow, as package backend specifies,
// whatever clocks say: no clock of the server is asked who leads. It holds if
//
//   - all members write to one server at a time: a single primary. Several
//     writers (Galera or Group Replication with many primaries, a proxy that
//     spreads connections) are not supported; servers that take turns are found
//     out and reported;
//   - an old primary is fenced off (stopped, or super_read_only) before a new one
//     takes writes, and does not come back within the greatest TTL; a former
//     primary that is promoted again, however much later, has all that its
//     successor has acknowledged, or another @@server_id;
//   - replicas are read_only: a reading from a read-only server is an error and
//     never counts as watching;
//   - the greatest TTL, and a new table, have reached the replica before they are
//     relied on.
//
// Then even a failover that loses the last writes elects no second leader. It
// costs one greatest TTL (15 s) without a leader.
//
// What no lease can promise: that a process which was stopped does not write
// after it wakes. For data in the same server [Fence] does.
//
// # How it works
//
// Renewing is one UPDATE that gives up to 1,000 leases one fresh random heartbeat,
// and one SELECT on the same connection: what reads back with that heartbeat is
// renewed. The UPDATE is pinned to nonce, term and server, so it does nothing if
// it arrives late, after a failover or after another grant. It passes over rows
// that somebody else has locked (SKIP LOCKED): those are unknown, and tried
// again, and all others are renewed.
//
// A grant is one UPDATE of lease and term, pinned to what was read in the same
// call, which must be what the challenger has watched. The first grant of an
// election makes its rows, in a transaction that locks the row of the table
// itself: the one place where this package holds a lock between statements, for
// two seconds at most.
//
// Each reading includes the row of the table itself, with the identity of the
// server that answered: @@server_id with @@server_uuid on MySQL, with port,
// @@server_uid and host name on MariaDB. A lease that another server wrote last,
// held or vacant, is free only after it was watched for the greatest TTL. So is an
// election without a row, unless this server made the last one, none is missing (the
// table counts), and it has no term, which whatever was led once has. And so is each
// lease after a start of a server that does not keep every commit
// (innodb_flush_log_at_trx_commit other than 1, or a binary log with sync_binlog other
// than 1, which is MariaDB's default; a process that has once seen it so does not trust
// a configuration that says otherwise), until somebody has seen that start for the
// greatest TTL by its own clock. Who has, and is granted something, says so in the row
// of the table itself: it names the second of the start, which UUID_SHORT tells. The
// server's running time is not asked; it jumps with its clock.
//
// Followers read when a renewal is due. To hear of a resignation in
// milliseconds they also wait for the leader's notification lock: a lock by name
// (GET_LOCK) which the leader lets go of for a moment. It is a hint and nothing
// rests on it. Where there is no GET_LOCK all is polled, and so is a leader that has
// no notifier.
//
// # Connections and statements
//
// A Backend has a pool of its own: 3 connections, one of which is its own
// notification lock while it leads, and one for each leader that it listens to, 4 by
// default ([Options].NotifyConns). Each new connection sends SHOW VARIABLES and one
// SET, which pins time zone, autocommit and completion_type, SQL mode, READ COMMITTED
// and writing, lock waits of one second and limits of running time and rows, whatever
// server and DSN say. In the
// steady state:
//
//	leader      2 statements for each 1,000 leases per renewal
//	follower    1 statement for each 1,000 leases per renewal, and
//	            2 for each leader it listens to every 10 seconds
//	everybody   1 statement per TTL: its member record
//	            1 statement every 30 seconds while it leads: is the notification lock still mine?
//
// A server that does not keep every commit is asked for its start with each reading,
// and an election that has no row for its term: one statement more each.
//
// Ten thousand leases at a TTL of 10 s: 6 statements per second on the leader
// and 3 on a follower, besides those of a constant number.
//
// FLUSH TABLES WITH READ LOCK, as some backups do, stops all renewals: a TTL must
// be longer than that, or the leader steps down. The binary log must be ROW or
// MIXED, or off.
//
// # Rights
//
// Three tables, three rights. Nothing else is needed, and CREATE only by who
// calls [CreateTables]:
//
//	GRANT SELECT, INSERT, UPDATE ON app.election_lease  TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_term   TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_member TO 'app'@'%';
//
// Observers need SELECT. A user of [Fence] needs SELECT on election_term. Give
// nobody SUPER: it writes to read-only servers. Who can write these tables can
// depose or impersonate any leader.
//
// # Looking inside
//
// All is plain text. Times are UTC, and for people:
//
//	SELECT name, holder, address, term, expires_at FROM election_lease WHERE name <> '';
//	SELECT name, history FROM election_lease WHERE name = 'billing';
//	SELECT id, address, stage, seen_at FROM election_member ORDER BY seen_at DESC;
//	SELECT holder AS layout, term AS elections_made, ttl_us AS greatest_ttl, server FROM election_lease WHERE name = '';
//
// Do not delete rows, and do not drop tables while members run: a missing row
// makes new elections wait for the greatest TTL, and a process that starts after
// tables were dropped and made again cannot know who still leads. If a row is
// gone for good, this makes the count right again, a greatest TTL later:
//
//	UPDATE election_lease SET term = (SELECT n FROM (SELECT COUNT(*) - 1 AS n FROM election_lease) c) WHERE name = '';
//
// The greatest TTL is raised by (lower it only while no lease above it is held):
//
//	UPDATE election_lease SET ttl_us = 60000000 WHERE name = '';
package mysql
