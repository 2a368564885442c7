// Package mysqltable shares elections with other programs that keep each election in one row
// of a table in MySQL or MariaDB, and take over a row that was not renewed for some seconds.
//
//	store, err := mysqltable.Open(mysqltable.Options{DSN: dsn, Layout: mysqltable.LastSeenActive})
//	manager, err := election.New(store, election.Options{TTL: 4 * time.Second})
//
// Such programs run "insert ignore … on duplicate key update …" in a loop. Many descend from
// one article and call their table leader_election; [Layout] lists the three known shapes. The
// programs need no change, and know nothing of this module.
//
// A lease here is two things: a lease of package backend/mysql in a table of this module's own
// ([CreateTables]), and the row of the other programs. A member of this module leads if and
// only if it holds both. Between members of this module, all promises of package backend/mysql
// hold: growing terms, [mysql.Fence], requests, member records, notifications. The row
// excludes the other programs.
//
// # Limits of the table
//
//   - Other programs have no deadline of their own. One that is stopped, or cut off from the
//     server, goes on leading beside its successor. No member of this module can prevent that.
//     The reverse does not happen: a member of this module that is stopped or cut off has
//     stopped leading before another program takes over.
//   - A leadership of another program has no term. While it leads, the last term of this module
//     is shown. A fenced resource is safe from members of this module, not from other programs.
//   - The server's clock decides for the other programs. If it is set forward by more than the
//     clock margin, they may take a row on which a member of this module still relies. Slew it.
//   - Sessions of the other programs should be in UTC or in a zone without daylight saving time.
//     Otherwise name the zone in [Options].Zone.
//   - The TTL must be less than the threshold by a second, or by two where the comparison is
//     not strict ([backend.Guarantees].MaxTTL).
//   - The table's collation takes "a" and "A" for one key. A name is refused if it is not
//     printable ASCII, is too long, or has a row with another spelling.
//   - JDBC programs that go by the number of changed rows (last_active_time) must set
//     useAffectedRows=true. By Connector/J's default each of them leads already.
//   - FailoverDelay, IncumbentGrace and nomination cover only members of this module.
//
// # Rights
//
//	GRANT SELECT, INSERT, UPDATE ON app.leader_election TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE, DELETE ON app.election_shared_item TO 'app'@'%';
//
// # More
//
// docs/mysqltable.md is the page for operators. docs/design/mysqltable.md explains why two
// members never lead at once, what manual edits do, and how elections leave the table.
package mysqltable
