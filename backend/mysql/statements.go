package mysql

import (
	"strings"
)

// statements has the SQL text for one dialect and one set of tables.
//
// Tests enforce these rules: no statement reads a column that it assigns, no time of the
// server decides anything, no statement removes a row, names and values are placeholders,
// strings are in single quotes.
type statements struct {
	identity string            // the expression for the answering server
	text     map[string]string // by the templates below
}

// serverState is the state of the server in one column, in the table's own row: whether it
// is read-only, whether it keeps every commit, and its time.
const serverState = `IF(l.name = '', CONCAT_WS(' ', @@global.read_only, @@innodb_flush_log_at_trx_commit = 1 AND (@@log_bin = 0 OR @@sync_binlog = 1), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))), '')`

const lightColumns = `l.name, l.holder, l.nonce, l.term, l.heartbeat, l.server = {server}, IF(l.server = {server}, '', l.server), l.ttl_us, l.renew_us,
 TIMESTAMPDIFF(MICROSECOND, l.renewed_at, UTC_TIMESTAMP(6)), l.ended, l.last_id, l.request, l.request_id, l.request_nonce, l.moved_to, l.moved_from,
 IF(l.name = '', {server}, ''), ` + serverState

const fullColumns = lightColumns + `, l.address, l.metadata, l.history, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', l.elected_at), t.term`

// Every read includes the table's own row, which shows the server that answered. It is the
// same statement, so that no proxy can mix the answers of two servers.
const lightSQL = `SELECT ` + lightColumns + `, {count} FROM {lease} l WHERE l.name IN ('', {names}) ORDER BY l.name`
const fullSQL = `SELECT ` + fullColumns + `, {count} FROM {lease} l LEFT JOIN {term} t ON t.name = l.name WHERE l.name IN ('', {names}) ORDER BY l.name`
const listSQL = `SELECT ` + fullColumns + `, 0 FROM {lease} l LEFT JOIN {term} t ON t.name = l.name WHERE l.name = '' OR l.name >= ? ORDER BY l.name LIMIT ?`
const countSQL = `(SELECT COUNT(*) - 1 FROM {lease})`
const candidatesSQL = `SELECT holder, nonce, address, metadata FROM {lease} WHERE name IN ({names})`

// Writes skip rows that another transaction has locked. See docs/design/mysql.md, "Renewals",
// for SKIP LOCKED, STRAIGHT_JOIN, FORCE INDEX and LIMIT.
const renewSQL = `UPDATE (SELECT l.name FROM {lease} l FORCE INDEX (PRIMARY)
  WHERE (l.name, l.term) IN ({names}) AND l.nonce = ? AND l.server = {server} AND l.request <> 'depose' LIMIT 100000 FOR UPDATE SKIP LOCKED) s
 STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = s.name
 SET l.heartbeat = ?, l.ttl_us = ?, l.renew_us = ?, l.renewed_at = UTC_TIMESTAMP(6), l.expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND`

// markSQL is a renewal that also writes the marks of a migration.
const markSQL = renewSQL + `, l.moved_to = ?, l.moved_from = ?`

// grantSQL writes lease and term at once, if both are exactly as they were read.
const grantSQL = `UPDATE (SELECT v.* FROM ({names}) v
  STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = v.name AND l.term = v.term AND l.heartbeat = v.heartbeat AND l.server = v.server
  STRAIGHT_JOIN {term} t FORCE INDEX (PRIMARY) ON t.name = v.name
  WHERE {server} = ? LIMIT 100000 FOR UPDATE SKIP LOCKED) s
 STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = s.name
 STRAIGHT_JOIN {term} t FORCE INDEX (PRIMARY) ON t.name = s.name
 SET l.term = s.next, t.term = s.next, l.heartbeat = ?, l.holder = ?, t.holder = ?, l.nonce = ?, t.nonce = ?, l.address = ?, l.metadata = ?,
  l.ttl_us = ?, l.renew_us = ?, l.server = {server}, l.ended = s.ended, l.last_id = s.last_id,
  l.request = '', l.request_id = '', l.request_nonce = '', l.elected_at = UTC_TIMESTAMP(6), l.renewed_at = UTC_TIMESTAMP(6),
  l.expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, l.history = s.history`

const releaseSQL = `UPDATE (SELECT v.* FROM ({names}) v
  STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = v.name AND l.term = v.term AND (v.heartbeat = 0 OR l.heartbeat = v.heartbeat)
  WHERE l.nonce = ? AND l.server = {server} LIMIT 100000 FOR UPDATE SKIP LOCKED) s
 STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = s.name
 SET l.heartbeat = ?, l.holder = '', l.nonce = '', l.address = '', l.metadata = '', l.ttl_us = 0, l.renew_us = 0,
  l.ended = s.ended, l.last_id = s.last_id,
  l.renewed_at = UTC_TIMESTAMP(6), l.expires_at = UTC_TIMESTAMP(6), l.history = s.history`

// changeSQL is the first row of the values in grantSQL and releaseSQL.
const changeSQL = `SELECT ? AS name, ? AS term, ? AS heartbeat, ? AS server, ? AS next, ? AS ended, ? AS last_id, ? AS history`
const moreChangesSQL = ` UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?`

// The first grant of an election that has no row.
const createLimitSQL = `SET SESSION wait_timeout = 2`
const idleLimitSQL = `SET SESSION wait_timeout = 60` // as in sessionSettings
const lockOwnRowSQL = `SELECT ` + lightColumns + `, 0 FROM {lease} l WHERE l.name = '' FOR UPDATE`
const countRowsSQL = `SELECT COUNT(*) - 1 FROM {lease}`
const existingSQL = `SELECT name, term FROM {lease} WHERE name IN ({names})`
const orphansSQL = `SELECT name, term FROM {term} WHERE name IN ({names})`
const termsSQL = `SELECT name, term FROM {term} WHERE name IN ({names}) FOR UPDATE`
const leaseColumns = `name, holder, nonce, address, metadata, term, heartbeat, ttl_us, renew_us, server, ended, last_id,
 request, request_id, request_nonce, moved_to, moved_from, elected_at, renewed_at, expires_at, history`
const createLeaseSQL = `INSERT INTO {lease} (` + leaseColumns + `) VALUES {names}`
const createLeaseRow = `(?, ?, ?, ?, ?, ?, ?, ?, ?, {server}, '', '', '', '', '', '', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, '[]')`
const createTermSQL = `INSERT INTO {term} (name, term, nonce, holder) VALUES {names}`
const raiseTermSQL = `UPDATE {term} SET term = ?, nonce = ?, holder = ? WHERE name = ? AND term < ?`
const updateOwnRowSQL = `UPDATE {lease} SET term = ?, heartbeat = ?, server = {server}, renewed_at = UTC_TIMESTAMP(6) WHERE name = ''`

// healTermSQL restores a term row that was deleted, with the term of the lease. It grants
// nothing.
const healTermSQL = `INSERT INTO {term} (name, term, nonce, holder) SELECT name, term, nonce, holder FROM {lease} WHERE name = ?`

// These statements need the right to insert rows, and insert none.
const preflightLeaseSQL = `INSERT INTO {lease} (` + leaseColumns + `) SELECT ` + leaseColumns + ` FROM {lease} WHERE 1 = 0`
const preflightTermSQL = `INSERT INTO {term} (name, term, nonce, holder) SELECT name, term, nonce, holder FROM {term} WHERE 1 = 0`

const requestSQL = `UPDATE {lease} SET request = ?, request_id = ?, request_nonce = ? WHERE (name, term) IN ({names}) AND name <> ''`

const announceSQL = `UPDATE {member} SET id = ?, address = ?, metadata = ?, stage = ?, elections = ?, ttl_us = ?, seen_at = UTC_TIMESTAMP(6) WHERE nonce = ?`
const reuseMemberSQL = `UPDATE {member} SET nonce = ?, id = ?, address = ?, metadata = ?, stage = ?, elections = ?, ttl_us = ?, seen_at = UTC_TIMESTAMP(6)
 WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY nonce LIMIT 1`
const createMemberSQL = `INSERT INTO {member} (nonce, id, address, metadata, stage, elections, ttl_us, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))`
const membersSQL = `SELECT nonce, id, address, metadata, stage, elections, ttl_us, TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)) FROM {member}
 WHERE nonce >= ? AND TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)) <= CAST(2 * LEAST(ttl_us, 1000000000000) AS SIGNED) ORDER BY nonce LIMIT ?`

// bootSQL reads the second in which the server was started, by its clock at that time
// (dev.mysql.com, UUID_SHORT). After 2^24 calls of UUID_SHORT it is the next second, which
// looks like another start.
const bootSQL = `SELECT UUID_SHORT() >> 24 & 4294967295`

// recordVerifiedBootSQL records that a process has seen this start for the greatest TTL.
const recordVerifiedBootSQL = `UPDATE (SELECT l.name FROM {lease} l FORCE INDEX (PRIMARY) WHERE l.name = '' AND {server} = ? LIMIT 1 FOR UPDATE SKIP LOCKED) s
 STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = s.name SET l.last_id = ?`

// allTemplates lists the statements, for newStatements and for the test of the rules.
var allTemplates = []string{
	lightSQL, fullSQL, listSQL, countSQL, candidatesSQL, renewSQL, markSQL, grantSQL, releaseSQL, changeSQL, moreChangesSQL, createLimitSQL, idleLimitSQL, lockOwnRowSQL, countRowsSQL, existingSQL, orphansSQL, termsSQL,
	createLeaseSQL, createLeaseRow, createTermSQL, raiseTermSQL, updateOwnRowSQL, healTermSQL, preflightLeaseSQL, preflightTermSQL, requestSQL, announceSQL, reuseMemberSQL, createMemberSQL,
	membersSQL, bootSQL, recordVerifiedBootSQL, showVariables, columnsSQL, awaitLockSQL, takeLockSQL, retakeLockSQL, releaseLockSQL, holdsLockSQL, identifyConnSQL, killSQL, limitHoldSQL, fenceSQL, restoreLimitsSQL,
}

// newStatements fills the names of the tables and the identity into the templates.
func newStatements(t tables, identity string) *statements {
	s := &statements{identity, make(map[string]string, len(allTemplates))}
	r := strings.NewReplacer("{lease}", t.lease, "{term}", t.term, "{member}", t.member, "{server}", identity)
	for _, template := range allTemplates {
		s.text[template] = r.Replace(template)
	}
	return s
}

// fill returns the text of a template, with names in place of {names}.
func (s *statements) fill(template, names string) string {
	return strings.Replace(s.text[template], "{names}", names, 1)
}

// placeholders returns n copies of one, with commas between them.
func placeholders(one string, n int) string {
	return strings.Repeat(one+", ", n-1) + one
}
