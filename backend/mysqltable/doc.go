// Package mysqltable shares elections with programs that keep them in a table of
// their own in MySQL or MariaDB, one row each, and take over a row that has not been
// renewed for some seconds.
//
//	store, err := mysqltable.Open(mysqltable.Options{DSN: dsn, Layout: mysqltable.LastSeenActive})
//	manager, err := election.New(store, &election.Options{TTL: 4 * time.Second})
//
// Such programs run "insert ignore … on duplicate key update …" in a loop. Many
// descend from one article, and many call their table leader_election; three shapes
// of it are known, [Layout]. They need no change, and know nothing of this module.
//
// # What a lease is
//
// Two things: a lease of package backend/mysql, in tables of this module's own
// ([CreateTables]), and the row of the other programs. A member of this module leads
// if and only if it holds both. It gets the lease first, then the row, and gives
// them back in the reverse order.
//
// The lease excludes the other members of this module. So between them all holds
// that package backend/mysql promises: terms that grow for ever, [mysql.Fence],
// requests, member records, handover by notification. The row excludes other programs.
//
// # What could two processes each believe?
//
// One of ours and one of theirs. The row's time is the server's, and theirs take over
// when it is older than the threshold by the server's clock. Ours believes to lead
// for the Trust of its latest renewal. That is not inferred from the write, nor
// from the number of rows that it changed, but read back after it, on the same
// connection: if the row still has our holder and is s seconds old by the server's
// clock, nobody takes it within threshold - s of that reading. (One second more,
// where the fleet's comparison is strict.) Trust is no more than that, and it counts
// from before the first request of the call left. So it is over before one of
// theirs can have the row, however long a statement has waited, and whether the
// write was done, done late or not at all.
//
// The holder that is written ends with a mark, made of the nonce and the term. So
// what arrives late, of whichever grant, finds another holder and does nothing.
//
// Theirs, before ours. They believe to lead until they look again, and their
// statement renews the row whenever they look. One of ours takes the row only after
// it has seen it unchanged for the threshold on its own monotonic clock, and only
// if it has expired by the other programs' own comparison as well; the UPDATE is
// pinned to the holder and the time that were watched. So no jump of the server's
// clock and no change of daylight saving time makes ours take a row that is being
// renewed. In the hour that is repeated in autumn their rows can look an hour old
// (MySQL stores NOW() 3600 seconds too early then); they change all the same. A
// program that has not looked for the threshold may believe to lead as long as it
// likes: see the limits.
//
// After the hand of an operator. A row that was deleted, or that has a blank holder,
// or names a member of ours (by its id) is nobody's; but who led until then does not
// know before it looks. It is watched for [Options].Period. The other way round,
// one of ours hears of an UPDATE, a REPLACE or a DELETE with its next renewal, which
// is refused: it steps down, and until then two may lead, for one renewal interval at
// most, as in any such fleet.
//
// Two of ours. The lease decides. The row follows: whoever has been granted the lease
// takes a row that is marked as its last holder's at once. A mark that is not known
// (of a grant that got no further than the lease) counts as another program's.
//
// # Limits, which are those of the table
//
//   - Members of other programs have no deadline of their own. One that is stopped,
//     or cut off from the server, goes on leading beside whoever has taken over;
//     nothing that a member of ours does prevents that. The reverse is not so: ours
//     that are stopped or cut off have ceased to lead before theirs take over.
//   - A leadership of theirs has no term. While one of theirs leads, the last term of ours
//     is shown. A resource that is fenced by terms is safe from ours, not from theirs.
//   - The server's clock decides for them. If it is set forward by more than the
//     clock margin they may take a row that one of ours still trusts. Slew it.
//   - Their sessions should be in UTC, or in a zone without daylight saving time. Else
//     name it ([Options].Zone): in the second in which clocks spring forward a row that
//     was just written is an hour old to them. Nobody of ours leads across it.
//   - The threshold bounds the TTL: it must be less by a second, or by two where
//     the comparison is not strict ([backend.Guarantees].MaxTTL).
//   - The tables' collations take "a" and "A" for one key. A name that is not
//     printable ASCII, is too long, or has a row that is written otherwise, is refused.
//   - Fleets on JDBC whose members go by the number of changed rows
//     (last_active_time) must set useAffectedRows=true: by Connector/J's default each
//     of them leads already.
//   - FailoverDelay, incumbent grace and nomination cover members of this module only.
//
// # The hand of an operator
//
// What worked goes on working. To make somebody lead, of either kind, write its id:
//
//	UPDATE leader_election SET node = 'host-7:8080:1', last_seen_active = now() WHERE name = 'billing';
//
// REPLACE and DELETE end our leadership, too. Members of ours never DELETE nor REPLACE. They
// try an UPDATE first and INSERT only where there is no row, since each upsert uses up
// a number of an AUTO_INCREMENT. A row that one of ours has released has a blank holder
// and a time in 1970, which theirs take at their next look.
//
// # Leaving the table
//
// Package backend/migration takes elections from mysqltable to mysql, or to any other
// store, and back. The seal is the time 2038-01-19 03:14:07, which theirs never see
// pass: a straggler cannot lead, unless somebody deletes or replaces the row. The
// mysql that it leads to must have another prefix than [Options].Prefix.
//
// # Rights
//
//	GRANT SELECT, INSERT, UPDATE ON app.leader_election        TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_shared_lease  TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_shared_term   TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE ON app.election_shared_member TO 'app'@'%';
//
// A renewal is two statements more than that of package backend/mysql, for up to 500
// elections, and so is an observation one more.
package mysqltable
