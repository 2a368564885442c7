package postgres

import (
	"fmt"
	"strings"

	"github.com/go-election/go-election/internal/relational"
)

// settingsSQL sets for one transaction what somebody may have told the connection: see the table in
// docs/design/postgres.md. The limit of the running time comes first, since it ends what follows.
const settingsSQL = limitSQL + ` {newer} SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL role TO DEFAULT;
SET LOCAL search_path = pg_catalog, pg_temp; ` + encodingSQL + `
SET LOCAL row_security = off; SET LOCAL lock_timeout = {patience}; SET LOCAL jit = off;
SET LOCAL work_mem = '64MB';
`

const (
	limitSQL    = `SET LOCAL statement_timeout = 10000;` // the first statement after each BEGIN
	encodingSQL = `SET LOCAL client_encoding = 'UTF8';`  // before whatever is answered; what is sent is ASCII
	newerSQL    = `SET LOCAL transaction_timeout = 0;`   // from PostgreSQL 17 on

	// readingSQL and writingSQL begin a transaction. What was acknowledged must survive a crash.
	readingSQL = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ` + settingsSQL
	writingSQL = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ` + settingsSQL + `
SET LOCAL default_transaction_read_only TO DEFAULT; SET LOCAL synchronous_commit TO DEFAULT;
SELECT set_config('transaction_read_only', current_setting('default_transaction_read_only'), true),
 set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
 THEN 'on' ELSE current_setting('synchronous_commit') END, true);
`
)

// hereSQL is the identity of server, timeline (pg_control_checkpoint has the old one for minutes), database
// and table: that of the row of the origin, if there is one. A table that a crash empties is no store.
const hereSQL = `(SELECT system_identifier::text FROM pg_control_system())
 || '.' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8)
 || '.' || (SELECT oid FROM pg_database WHERE datname = current_database())
 || '.' || (SELECT CASE WHEN relpersistence = 'u' THEN '` + noPlace + `' ELSE oid::text END FROM pg_class
 WHERE oid = coalesce((SELECT tableoid ` + originRowSQL + `), {named}::regclass)::oid)`

const (
	originRowSQL = `FROM {table} WHERE kind = 'origin' AND name = ''`
	noPlace      = "unlogged"                                     // nobody has an epoch with it
	positionSQL  = `(pg_current_wal_flush_lsn() - '0/0'::pg_lsn)` // only grows in one server: it is flushed
)

// headSQL is the first statement of a reading. All of a reading has one snapshot.
const headSQL = readingSQL + `SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE ` + hereSQL + ` END,
 CASE WHEN pg_is_in_recovery() THEN 0 ELSE ` + positionSQL + ` END,
 pg_snapshot_xmax(pg_current_snapshot()), (SELECT value ` + originRowSQL + `),
 CASE WHEN {count} THEN (SELECT count(*) FROM {table} WHERE kind = 'record') ELSE 0 END;
`

// versionSQL is the Version of a row: the transaction of this package, and the last one, whosever it is.
const versionSQL = `t.written || '.' || t.xmin`

// itemSQL has the columns of an item. A value that is too large is not sent.
const itemSQL = `SELECT t.kind, t.name, CASE WHEN octet_length(t.value) <= 1048576 THEN t.value ELSE '' END,
 ` + versionSQL + `, t.created, CASE WHEN isfinite(t.at) THEN
 greatest(0, 1000000 * extract(epoch FROM clock_timestamp() - t.at))::bigint END FROM {table} t `

const readSQL = headSQL + itemSQL + `JOIN json_array_elements({payload}) AS q
 ON t.kind = q->>0 AND t.name = q->>1; COMMIT`

const listSQL = headSQL + itemSQL + `JOIN (SELECT {payload} AS j) AS q
 ON t.kind = q.j->>0 AND t.name >= (q.j->>1) COLLATE "C" AND NOT ((q.j->>2)::bool AND t.name = q.j->>1)
 ORDER BY t.name COLLATE "C" LIMIT {limit}; COMMIT`

// lockSQL lets nobody else of this package make an item.
const lockSQL = `SELECT pg_advisory_xact_lock(1701603692, {named}::regclass::oid::int4);
`

// lockedSQL asks which session has locked the table, or waits for that, so that a message waits.
const lockedSQL = `BEGIN READ ONLY; ` + settingsSQL + `SELECT a.pid, a.usename, a.application_name
 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.relation = to_regclass({named})
 AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
 ORDER BY NOT l.granted LIMIT 1; COMMIT`

// originSQL sets the row that has the epoch, if it is as it was read.
const originSQL = writingSQL + lockSQL + `INSERT INTO {table} AS t (kind, name, value, written, created, at)
 VALUES ('origin', '', {payload}->>0, pg_current_xact_id(), pg_current_xact_id(), clock_timestamp())
 ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, written = excluded.written, at = excluded.at
 WHERE t.value = {payload}->>1; COMMIT`

// writeSQL makes changes whose items are as they were read. Rows that are put are locked for update, rows
// that are only checked for share. A row that somebody else has locked is skipped: its change is busy. A row
// in no snapshot is missing, since lockSQL is a statement of its own. If a trigger keeps a change back or
// alters it, all fails: what is not written must not count as granted.
const writeSQL = `WITH a AS MATERIALIZED (SELECT {payload} AS j),
i AS MATERIALIZED (SELECT (q->>0)::int AS c, q->>1 AS k, q->>2 AS n, q->>3 AS w, q->>4 AS v, q->>5 AS b,
 (q->>6)::bool AS p FROM a, json_array_elements(a.j->'rows') AS q),
u AS MATERIALIZED (` + rowsSQL + `i ON i.p AND t.kind = i.k AND t.name = i.n FOR UPDATE OF t SKIP LOCKED),
s AS MATERIALIZED (` + rowsSQL + `(SELECT DISTINCT k, n FROM i WHERE NOT p) AS i
 ON t.kind = i.k AND t.name = i.n FOR SHARE OF t SKIP LOCKED),
h AS MATERIALIZED (SELECT starts_with(a.j->>'epoch', ` + hereSQL + ` || '.')
 AND ` + positionSQL + ` >= (a.j->>'newest')::numeric
 AND split_part((SELECT value ` + originRowSQL + `), ' ', 1) = a.j->>'epoch' AS same FROM a),
r AS MATERIALIZED (SELECT i.c,
 bool_or(l.kind IS NULL AND EXISTS (SELECT FROM {table} t WHERE t.kind = i.k AND t.name = i.n)) AS busy,
 bool_and(coalesce(l.version, '') = i.w AND (i.b IS NULL OR i.b = l.value)) AS ok
 FROM i LEFT JOIN (SELECT u.*, true AS p FROM u UNION ALL SELECT s.*, false FROM s) l
 ON l.kind = i.k AND l.name = i.n AND l.p = i.p GROUP BY i.c),
g AS MATERIALIZED (SELECT i.* FROM i JOIN r ON r.c = i.c AND r.ok AND NOT r.busy, h WHERE i.p AND h.same),
updated AS (UPDATE {table} t SET value = g.v, written = pg_current_xact_id(), at = clock_timestamp() FROM g
 WHERE g.w <> '' AND g.v IS NOT NULL AND t.kind = g.k AND t.name = g.n RETURNING t.kind, t.name, t.value),
deleted AS (DELETE FROM {table} t USING g WHERE g.w <> '' AND g.v IS NULL AND t.kind = g.k AND t.name = g.n
 RETURNING t.kind, t.name, NULL),
inserted AS (INSERT INTO {table} (kind, name, value, written, created, at)
 SELECT g.k, g.n, g.v, pg_current_xact_id(), pg_current_xact_id(), clock_timestamp()
 FROM g WHERE g.w = '' AND g.v IS NOT NULL RETURNING kind, name, value),
kept AS (SELECT count(*) AS n
 FROM g LEFT JOIN (TABLE updated UNION ALL TABLE deleted UNION ALL TABLE inserted) AS x
 ON x.kind = g.k AND x.name = g.n AND x.value IS NOT DISTINCT FROM g.v WHERE x.kind IS NULL)
SELECT coalesce(h.same, false), r.c, r.busy, r.ok,
 CASE WHEN h.same AND r.ok AND NOT r.busy THEN pg_current_xact_id() END,
 CASE WHEN h.same AND r.ok AND NOT r.busy AND (SELECT (a.j->>'notify')::bool FROM a)
  THEN pg_notify('{channel}', '') END
FROM h LEFT JOIN r ON true JOIN kept ON CASE WHEN kept.n = 0 THEN true
 ELSE ('a trigger has kept back or altered changes: ' || kept.n)::bool END;
COMMIT;
`

const rowsSQL = `SELECT t.kind, t.name, ` + versionSQL + ` AS version, t.value FROM {table} t JOIN `

// verifySQL follows a writing, so that the position is not before its commit.
const verifySQL = readingSQL + `SELECT ` + positionSQL + `, pg_snapshot_xmax(pg_current_snapshot()),
 (SELECT string_agg((q.i - 1)::text, ' ') FROM json_array_elements({payload}) WITH ORDINALITY AS q(j, i)
 LEFT JOIN {table} t ON t.kind = q.j->>0 AND t.name = q.j->>1
 WHERE coalesce(` + versionSQL + `, '') <> q.j->>2); COMMIT`

// statement completes the text of a statement. {payload} stands for data.
func (d *driver) statement(text string, data any, more ...string) string {
	t := d.Settled()
	return strings.NewReplacer(append(more, "{table}", ascii(t), "{named}", textSQL(t.String()),
		"{channel}", t.Name(), "{payload}", textSQL(relational.JSON(data))+"::json")...).Replace(text)
}

// ascii returns the name of a table as a statement has it: the server may read that in any encoding.
func ascii(t relational.Table) string {
	if t.Schema == "" {
		return t.String()
	}
	var schema strings.Builder
	for _, r := range t.Schema {
		if r < 0x80 && r != '"' && r != '\\' {
			schema.WriteRune(r)
		} else {
			fmt.Fprintf(&schema, `\+%06X`, r)
		}
	}
	t.Schema = ""
	return `U&"` + schema.String() + `".` + t.String()
}
