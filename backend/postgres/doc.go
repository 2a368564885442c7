// Package postgres keeps leases in PostgreSQL 13 or later, by the protocol of package lease.
//
//	dsn := "postgres://app:secret@db1,db2:5432/app?sslmode=verify-full"
//	store, err := postgres.Open(postgres.Options{DSN: dsn})
//	manager, err := election.New(store, election.Options{})
//
// All is in the rows of one table, which the first candidate makes if its account may CREATE. A program's own
// *pgxpool.Pool or *sql.DB can be handed in. [Fence] protects transactions on the program's own tables.
//
//   - TTLs are 1 s to [Options].MaxTTL, which is the same in all processes. After a failover, which may lose
//     what was acknowledged, each lease is observed for that long.
//   - Clocks of managers must tick at nearly the same rate. None is compared with another machine's.
//   - One server takes writes at a time, with fsync and full_page_writes on. Before a standby is promoted the
//     old primary must be fenced off. It may come back as a primary no sooner than MaxTTL after the last one
//     was stopped. The same holds for an older copy of the data.
//   - Name the schema: [Options].Schema. Behind PgBouncer it is needed, and handovers wait for the next poll.
//   - Row level security must not apply to members: hidden rows look as if they were not there.
//   - Do not edit or delete rows, and use Depose to end a leadership.
//
// docs/postgres.md is the operator's page. docs/design/postgres.md says how rows become items.
package postgres
