// Package mysqltable shares elections with other programs that keep each election in one row of a table in
// MySQL or MariaDB, and take over a row that was not renewed for some seconds.
//
//	o := mysqltable.Options{MySQL: mysql.Options{DSN: dsn}, Layout: mysqltable.LastSeenActive}
//	store, err := mysqltable.Open(o)
//	manager, err := election.New(store, election.Options{TTL: 4 * time.Second})
//
// Such programs run "insert ignore … on duplicate key update …" in a loop. Many descend from one article and
// call their table leader_election; [Layout] lists the three known shapes. They need no change.
//
// A member leads if and only if it has two things, as package backend/beside says: a lease of package
// backend/mysql, in a table of this module's own, and the row of the other programs. This package is about
// the row.
//
// # Limits of the table
//
//   - Other programs have no deadline of their own. One that is stopped, or cut off from the server, goes on
//     leading beside its successor. No member of this module can prevent that. The reverse does not happen.
//   - The server's clock decides for the other programs. If it is set forward by more than the clock margin,
//     they may take a row on which a member of this module still relies. Slew it.
//   - Sessions of the other programs should be in UTC or in a zone without daylight saving time. Otherwise
//     name the zone in [Options].Zone.
//   - The TTL must be less than the threshold by a second, or by two where the comparison is not strict
//     ([backend.Guarantees].MaxTTL).
//   - The table's collation takes "a" and "A" for one key: only the one that is there has a row.
//   - JDBC programs that go by the number of changed rows (last_active_time) must set useAffectedRows=true.
//     By Connector/J's default each of them leads already.
//
// docs/mysqltable.md is the page for operators. docs/design/mysqltable.md explains why two members never lead
// at once, what manual edits do, and how elections leave the table.
package mysqltable
