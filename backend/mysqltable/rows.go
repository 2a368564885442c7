package mysqltable

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A row is what the table says about one election. The zero value is none.
type row struct {
	found   bool
	holder  string // any bytes
	time    string // its time, in UTC, perhaps with a fraction of a second
	age     time.Duration
	now     time.Time // of the server, when it was read
	expired bool      // by the other programs' comparison, or sealed
}

const (
	kindSQL = `SELECT DATA_TYPE FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLUMN_NAME = ?`

	readSQL = `SELECT {key}, {holder}, COALESCE(CAST({at} AS CHAR), ''),
 COALESCE(TIMESTAMPDIFF(MICROSECOND, {at}, UTC_TIMESTAMP(6)), 1000000000000000),
 TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), {expired}
 FROM {table} WHERE {key} IN (?)`

	// insertSQL never changes a row. It is sent only if there is none: each use takes an AUTO_INCREMENT.
	insertSQL = `INSERT INTO {table} ({key}, {holder}, {at}) VALUES (?, ?, ?)
 ON DUPLICATE KEY UPDATE {key} = {key}`

	takeSQL        = `UPDATE {table} SET {holder} = ?, {at} = ? WHERE {key} = ? AND {holder} = ? AND {at} = ?`
	takeExpiredSQL = takeSQL + ` AND {expired}`

	// unlockedSQL returns the rows that nobody else has locked. Only they are renewed, so none waits.
	unlockedSQL = `SELECT {key}, {holder} FROM {table}
 WHERE ({key}, {holder}) IN (?) AND {at} <> '` + sealed + `' FOR UPDATE SKIP LOCKED`
	renewSQL = `UPDATE {table} SET {at} = NOW() WHERE ({key}, {holder}) IN (?) AND {at} <> '` + sealed + `'`

	// These need the rights of a taking, and change nothing.
	noUpdateSQL = `UPDATE {table} SET {holder} = '', {at} = NOW() WHERE 1 = 0`
	noInsertSQL = `INSERT INTO {table} ({key}, {holder}, {at})
 SELECT {key}, {holder}, {at} FROM {table} WHERE 1 = 0`

	// dropSQL names the key twice, since the table takes "a" and "A" for one.
	dropSQL = `UPDATE {table} SET {holder} = '', {at} = IF({at} = '` + sealed + `', {at}, '` + vacated + `')
 WHERE {key} = ? AND CAST({key} AS BINARY) = ? AND RIGHT({holder}, 17) = ?`
)

// pair returns a key and a holder as an expression.
func pair(key, holder string) string { return "(" + text(key) + ", " + text(holder) + ")" }

// text returns a text as an expression.
func text(s string) string { return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'" }

// statement fills names and expressions into the text of a statement.
func (t *table) statement(s string, expressions ...string) string {
	s = t.names.Replace(s)
	for _, e := range expressions {
		s = strings.Replace(s, "?", e, 1)
	}
	return s
}

// check returns an error if an election cannot have a row: its name is the key.
func (t *table) check(election string) error {
	if len(election) > t.shape.width || !plainText.MatchString(election) {
		return fmt.Errorf("mysqltable: election %.80q: %w: the name is the key in the table, and must be "+
			"1 to %d characters of printable ASCII, without a blank at either end; choose another name",
			election, backend.ErrInvalid, t.shape.width)
	}
	return nil
}

// query sends statements, once the table was checked.
func (t *table) query(ctx context.Context, what string, statements ...string) (rows [][][]byte, err error) {
	if !t.checked.Load() {
		err = t.checkTable(ctx)
	}
	if err == nil {
		rows, err = t.server.Query(ctx, statements...)
	}
	if err != nil {
		return nil, fmt.Errorf("mysqltable: %s: %w", what, err)
	}
	return rows, nil
}

// checkTable checks once that the table's time is a TIMESTAMP: a DATETIME is in each program's own zone.
func (t *table) checkTable(ctx context.Context) error {
	kinds, err := t.server.Query(ctx, t.statement(kindSQL, text(t.options.Table), text(t.shape.time)))
	switch {
	case err != nil:
		return err
	case len(kinds) == 0:
		return fmt.Errorf("%w: there is no table %s with a column %s, or this user may not see it",
			backend.ErrDenied, t.options.Table, t.shape.time)
	case !strings.EqualFold(string(kinds[0][0]), "timestamp"):
		return fmt.Errorf("%w: in %s the column %s is of type %q; it must be a timestamp",
			backend.ErrDenied, t.options.Table, t.shape.time, kinds[0][0])
	}
	t.checked.Store(true)
	return nil
}

// read sends statements first, and then reads the rows of elections, whatever has become of those.
func (t *table) read(ctx context.Context, what string, of []string, first ...string) (map[string]row, error) {
	keys := []string{text("")}
	for _, name := range of {
		if t.check(name) == nil { // or the table may not know its letters
			keys = append(keys, text(name))
		}
	}
	answer, err := t.query(ctx, what, append(first, t.statement(readSQL, strings.Join(keys, ", ")))...)
	if err != nil {
		return nil, err
	}

	found := make(map[string]row, len(answer))
	for _, c := range answer {
		found[string(c[0])] = row{found: true, holder: string(c[1]), time: string(c[2]), age: micros(c[3]),
			now: time.UnixMicro(0).Add(micros(c[4])), expired: string(c[5]) == "1"}
	}
	return found, nil
}

func micros(text []byte) time.Duration {
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return time.Duration(n) * time.Microsecond
}
