package mysql

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/go-election/go-election/internal/relational"
)

// serverSQL is the identity of the server that answers. MariaDB's server_uid alone repeats after a new
// installation, or is missing. A server that does not keep every commit is another one after each start, as
// UUID_SHORT tells by the second: its running time would jump with its clock. Two starts in one second differ
// in UUID's clock sequence, which is random, and changes otherwise only if the clock is set back.
const serverSQL = `REPLACE(REPLACE(CONCAT_WS(':', @@server_id, /*!80000 @@server_uuid, */
 /*M! @@port, @go_election_uid, LEFT(@@hostname, 100), */
 IF(@@innodb_flush_log_at_trx_commit = 1 AND (@@log_bin = 0 OR @@sync_binlog = 1), NULL,
  CONCAT(UUID_SHORT() >> 24 & 4294967295, '-', SUBSTR(UUID(), 20, 4)))), ' ', '_'), '.', '_')`

// uidSQL is part of the setup of a connection: to ask for a variable that may be missing takes a millisecond.
const uidSQL = `SET @go_election_uid = /*!80000 NULL */ /*M! (SELECT VARIABLE_VALUE
 FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'SERVER_UID') */`

// placeSQL is the identity of the table, as far as a member or observer may read it: the schema, and on MySQL
// the second in which it was made. A copy of the rows in another one is another store. On MariaDB that time
// is of a file, and changes with its mode or links; then what was opened before still has the former one, so
// that two answers differ. A table of another engine, which keeps no row locked, is no store.
const placeSQL = `COALESCE((SELECT IF(i.ENGINE <> 'InnoDB', '` + noPlace + `',
 LEFT(SHA2(CONCAT_WS('/', i.TABLE_SCHEMA /*!80000 , i.CREATE_TIME */), 256), 12))
 FROM information_schema.TABLES i WHERE i.TABLE_SCHEMA = {schema} AND i.TABLE_NAME = {name}), '')`

const (
	noPlace = "no-InnoDB" // nobody has an epoch with it

	// versionSQL is the Version of a row. It shows whether somebody has edited the value.
	versionSQL = `CONCAT(t.version, '.', LEFT(SHA2(t.value, 256), 12))`

	// rowsSQL lets the server look up each row by its key, and read no other.
	rowsSQL = `STRAIGHT_JOIN {table} t FORCE INDEX (PRIMARY) ON `
	keySQL  = `t.kind = CAST(q.k AS BINARY) AND t.name = CAST(q.n AS BINARY)`
)

// headSQL is the first row of a reading (origin, server, read_only, count): one statement, one snapshot.
const headSQL = `SELECT 'origin' AS kind, '' AS name,
 (SELECT o.value FROM {table} o WHERE o.kind = 'origin' AND o.name = '') AS value,
 CONCAT(` + serverSQL + `, '-', ` + placeSQL + `) AS version, @@global.read_only AS created,
 IF({count}, (SELECT COUNT(*) FROM {table} WHERE kind = 'record'), 0) AS age UNION ALL `

// itemSQL has the columns of an item. A value that is too large is not sent.
const itemSQL = `SELECT t.kind, t.name, IF(LENGTH(t.value) <= 1048576, t.value, '') AS value,
 ` + versionSQL + ` AS version, t.created,
 GREATEST(0, TIMESTAMPDIFF(MICROSECOND, t.at, UTC_TIMESTAMP(6))) AS age FROM `

const readSQL = headSQL + itemSQL + `JSON_TABLE({payload}, '$[*]' COLUMNS (
 k VARCHAR(7) {text} '$[0]', n VARCHAR(255) {text} '$[1]')) q ` + rowsSQL + keySQL

const listSQL = headSQL + `(` + itemSQL + `{table} t WHERE t.kind = '{kind}' AND t.name >= X'{from}'
 ORDER BY t.name LIMIT {limit})`

// originSQL sets the row that has the epoch, if it is as it was read.
const originSQL = `INSERT INTO {table} (kind, name, value, version, created, at)
 VALUES ('origin', '', {value}, '', '', UTC_TIMESTAMP(6))
 ON DUPLICATE KEY UPDATE value = IF(value = {kept}, VALUES(value), value)`

// A writing is several statements. The first has the changes, with a row for each item: c is the number of
// its change, k and n its key, w the version that was read, v the new value (null: it is deleted), b the
// former value (null: it is not compared), p is 1 if it is put and 0 if it is only checked. The server makes
// the random text, so that a late copy of the message does not make a deleted item again, with the same
// version.
const (
	changesSQL = `SET @go_election = {payload}, @go_election_server = ` + serverSQL + `,
 @go_election_random = LEFT(SHA2(UUID(), 256), 16)`
	columnsSQL = `JSON_TABLE(@go_election, '$[*]' COLUMNS (c INT PATH '$[0]', k VARCHAR(7) {text} '$[1]',
 n VARCHAR(255) {text} '$[2]', w VARCHAR(120) {text} '$[3]',
 v LONGTEXT {text} '$[4]', b LONGTEXT {text} '$[5]', p INT PATH '$[6]'))`

	// lockSQL lets nobody else make an item.
	lockSQL = `SELECT 1 FROM {table} WHERE kind = 'origin' AND name = '' FOR UPDATE`

	// compareSQL locks the rows, and compares them: those that are put for update, those that are only
	// checked for share, as a fence does. A change is Made (0) if all its items are as they were read,
	// Refused (1) if not, and Busy (2) if somebody else has locked a row: it is skipped. NULL: another epoch.
	compareSQL = `SELECT IF(@@global.read_only IN ('0', 'OFF')
 AND SUBSTRING_INDEX({epoch}, '.', 1) = CONCAT(@go_election_server, '-', ` + placeSQL + `)
 AND SUBSTRING_INDEX((SELECT value FROM {table} WHERE kind = 'origin' AND name = ''), ' ', 1) = {epoch},
 COALESCE((SELECT JSON_OBJECTAGG(r.c, r.s) FROM (SELECT q.c, MAX(CASE
  WHEN l.name IS NULL AND e.name IS NOT NULL THEN 2
  WHEN COALESCE(l.version, '') <=> q.w AND (q.b IS NULL OR q.b <=> l.value) THEN 0 ELSE 1 END) AS s
 FROM ` + columnsSQL + ` q LEFT JOIN (
 ` + lockedSQL + `1 LIMIT 1000000 FOR UPDATE /*!80000 OF t */ SKIP LOCKED) UNION ALL
 ` + lockedSQL + `0 LIMIT 1000000 /*!80000 FOR SHARE OF t */ /*M! LOCK IN SHARE MODE */ SKIP LOCKED)) l
  ON l.p = q.p AND l.kind = CAST(q.k AS BINARY) AND l.name = CAST(q.n AS BINARY)
 LEFT JOIN {table} e ON e.kind = CAST(q.k AS BINARY) AND e.name = CAST(q.n AS BINARY) GROUP BY q.c) r),
 '{}'), NULL) INTO @go_election_states`

	lockedSQL = `(SELECT i.p, t.kind, t.name, t.value, ` + versionSQL + ` AS version
 FROM (SELECT DISTINCT CAST(k AS BINARY) AS k, CAST(n AS BINARY) AS n, p FROM ` + columnsSQL + ` x) i
  ` + rowsSQL + `t.kind = i.k AND t.name = i.n WHERE i.p = `

	grantedSQL = `JSON_EXTRACT(@go_election_states, CONCAT('$."', q.c, '"')) = 0 AND q.p = 1`
	joinSQL    = columnsSQL + ` q ` + rowsSQL + keySQL
	writtenSQL = `CONCAT(@go_election_random, '-',
 LEFT(SHA2(CONCAT_WS(X'0A', @go_election_random, q.k, q.n, q.v), 256), 12))`
	updateSQL = `UPDATE ` + joinSQL + ` SET t.value = q.v, t.version = ` + writtenSQL + `,
 t.at = UTC_TIMESTAMP(6) WHERE q.w <> '' AND q.v IS NOT NULL AND ` + grantedSQL
	deleteSQL = `DELETE t FROM ` + joinSQL + ` WHERE q.w <> '' AND q.v IS NULL AND ` + grantedSQL
	insertSQL = `INSERT INTO {table} (kind, name, value, version, created, at)
 SELECT q.k, q.n, q.v, ` + writtenSQL + `, @go_election_random, UTC_TIMESTAMP(6)
 FROM ` + columnsSQL + ` q WHERE q.w = '' AND q.v IS NOT NULL AND ` + grantedSQL

	// resultSQL follows the commit, and names the items that have other versions than these.
	resultSQL = `SELECT -1 AS i, @go_election_states AS states, @go_election_random AS random
 UNION ALL SELECT q.i - 1, '', '' FROM JSON_TABLE({payload}, '$[*]' COLUMNS (i FOR ORDINALITY,
 k VARCHAR(7) {text} '$[0]', n VARCHAR(255) {text} '$[1]', w VARCHAR(120) {text} '$[2]')) q
 LEFT JOIN {table} t ON ` + keySQL + ` WHERE NOT (COALESCE(` + versionSQL + `, '') <=> q.w)`
)

// statement completes the text of a statement. {payload} stands for data, and {text} for what a column of
// text needs, since that of JSON_TABLE has the character set of the schema.
func (d *driver) statement(text string, data any, more ...string) string {
	t := d.Settled()
	more = append(more, "{table}", t.String(), "{schema}", hexText(t.Schema),
		"{name}", hexText(t.Name()), "{text}", "CHARACTER SET utf8mb4 PATH",
		"{payload}", literal(relational.JSON(data)))
	return strings.NewReplacer(more...).Replace(text)
}

// literal returns a text as an expression, which depends on no mode of the session. Nothing in it can be SQL.
func literal(text string) string {
	return "CONVERT(FROM_BASE64('" + base64.StdEncoding.EncodeToString([]byte(text)) + "') USING utf8mb4)"
}

// hexText is literal as the server knows it while it plans: information_schema then opens one table.
func hexText(s string) string { return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'" }
