package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// chunk is how many elections one statement is about.
const chunk = 500

// A row is what the table says about one election.
type row struct {
	found  bool
	key    string // as the table spells it
	holder string // any bytes
	time   string // its time, in UTC
	age    time.Duration
	now    time.Time // of the server, when it was read

	expired bool // by the other programs' comparison, or sealed
}

const maxAge = 20 * 365 * 24 * time.Hour

// call runs f with one connection, so that a write and the read that confirms it use the
// same one. A connection that broke while it was idle fails before anything is sent;
// database/sql then takes another.
func (t *table) call(ctx context.Context, op string, f func(*sql.Conn) error) error {
	conn, err := t.pools.Get().Conn(ctx)
	if err == nil {
		err = t.checkTable(ctx, conn)
	}
	if err == nil {
		err = f(conn)
	}
	if conn != nil {
		conn.Close()
	}
	return t.fail(op, err)
}

// quoted returns the quoted name of the other programs' table.
func (t *table) quoted() string {
	return "`" + strings.ReplaceAll(t.options.Schema, "`", "``") + "`.`" + t.options.Table + "`"
}

// statement fills the names of table and columns into a template.
func (t *table) statement(template string) string {
	s := t.shape
	return strings.NewReplacer("{table}", t.quoted(), "{key}", s.key, "{holder}", s.holder, "{at}", s.time, "{expired}", s.expired).Replace(template)
}

const (
	checkSQL = `SELECT LOWER(COLUMN_NAME), LOWER(DATA_TYPE), COALESCE(CHARACTER_MAXIMUM_LENGTH, 0) FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`
	readSQL = `SELECT {key}, {holder}, CAST({at} AS CHAR), TIMESTAMPDIFF(MICROSECOND, {at}, UTC_TIMESTAMP(6)),
 TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
 COALESCE({expired} OR {at} = '` + sealed + `', FALSE) FROM {table} WHERE {key} IN (%s)`
	unlockedSQL    = `SELECT {key} FROM {table} WHERE {key} IN (%s) FOR UPDATE SKIP LOCKED`
	insertSQL      = `INSERT INTO {table} ({key}, {holder}, {at}) VALUES (?, ?, NOW())`
	preflightSQL   = `INSERT INTO {table} ({key}, {holder}, {at}) SELECT {key}, {holder}, {at} FROM {table} WHERE 1 = 0`
	takeSQL        = `UPDATE {table} SET {holder} = ?, {at} = COALESCE(?, NOW()) WHERE {key} = ? AND {holder} = ? AND {at} = ?`
	takeExpiredSQL = takeSQL + ` AND ({expired} OR {at} = '` + sealed + `')`
	renewSQL       = `UPDATE {table} SET {at} = COALESCE(?, NOW()) WHERE ({key}, {holder}) IN (%s)`
	dropSQL        = `UPDATE {table} SET {holder} = '', {at} = IF({at} = '` + sealed + `', {at}, '` + vacated + `') WHERE {key} = ? AND RIGHT({holder}, 17) = ?`
)

// patienceSeconds is how old a row of another program must be.
func (t *table) patienceSeconds() int64 { return int64(t.options.Patience / time.Second) }

// checkTable checks once whether the table has the layout of the options.
func (t *table) checkTable(ctx context.Context, conn *sql.Conn) error {
	if t.checked.Load() {
		return nil
	}
	rows, err := conn.QueryContext(ctx, checkSQL, t.options.Schema, t.options.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	kinds, widths := make(map[string]string), make(map[string]int)
	for rows.Next() {
		var name, kind string
		var width int64
		if err := rows.Scan(&name, &kind, &width); err != nil {
			return err
		}
		kinds[name], widths[name] = kind, int(width)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	s := t.shape
	if len(kinds) == 0 {
		return fmt.Errorf("%w: there is no table %s, or this user may not see it", backend.ErrDenied, t.quoted())
	}
	for _, column := range []string{s.key, s.holder} {
		if widths[column] < s.width {
			return fmt.Errorf("%w: in %s the column %s is of type %q with %d characters; in the layout %s it has %d", backend.ErrDenied, t.quoted(), column, kinds[column], widths[column], t.options.Layout, s.width)
		}
	}
	// A DATETIME would be in each program's own zone, hours away from our times.
	if kinds[s.time] != "timestamp" {
		return fmt.Errorf("%w: in %s the column %s is of type %q; in the layout %s it is a timestamp", backend.ErrDenied, t.quoted(), s.time, kinds[s.time], t.options.Layout)
	}
	t.checked.Store(true)
	return nil
}

// keysOf returns the elections' keys. A name that cannot be a key has an error in errs.
func (t *table) keysOf(names []string) (keys []string, errs []error) {
	keys, errs = make([]string, len(names)), make([]error, len(names))
	for i, name := range names {
		keys[i] = name
		if t.options.Key != nil {
			keys[i] = t.options.Key(name)
		}
		if err := t.shape.checkKey(keys[i]); err != nil {
			errs[i] = fmt.Errorf("mysqltable: election %.80q: %w: %w; choose another name, or a key for it", name, backend.ErrInvalid, err)
		}
	}
	return keys, errs
}

// read reads the rows of keys, in the order of keys. If the table returns a row with another
// spelling of a key, the key has an error in errs.
func (t *table) read(ctx context.Context, conn *sql.Conn, keys []string, errs []error) ([]row, error) {
	found := make([]row, len(keys))
	at, coalesced := make(map[string]int), make(map[string]int)
	var args []any
	for i, key := range keys {
		if errs[i] == nil {
			at[key], coalesced[strings.ToLower(key)] = i, i
			args = append(args, key)
		}
	}
	for part := range slices.Chunk(args, chunk) {
		rows, err := conn.QueryContext(ctx, fmt.Sprintf(t.statement(readSQL), placeholders("?", len(part))), append([]any{t.patienceSeconds()}, part...)...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			r := row{found: true}
			var age sql.NullInt64
			var us int64
			var when sql.NullString
			if err := rows.Scan(&r.key, &r.holder, &when, &age, &us, &r.expired); err != nil {
				rows.Close()
				return nil, err
			}
			r.time, r.now, r.age = when.String, time.UnixMicro(us).UTC(), maxAge
			if age.Valid {
				const most = int64(maxAge / time.Microsecond)
				r.age = time.Duration(min(max(age.Int64, -most), most)) * time.Microsecond
			}
			i, ok := at[r.key]
			if !ok {
				if i, ok = coalesced[strings.ToLower(strings.TrimRight(r.key, " "))]; ok {
					errs[i] = fmt.Errorf("mysqltable: key %.80q: %w: the table has %.80q, and takes both for the same", keys[i], backend.ErrDenied, r.key)
				}
				continue
			}
			found[i] = r
		}
		err = rows.Err()
		rows.Close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// renewRows renews rows of this module: their time becomes the server's, or when. After a
// renewal had to wait for a lock, it skips locked rows; those stay as they are.
func (t *table) renewRows(ctx context.Context, conn *sql.Conn, keys, holders []string, when any) error {
	for part := range slices.Chunk(indices(len(keys)), chunk) {
		if t.locked.Load() {
			free, err := t.unlockedRows(ctx, conn, keys, part)
			if err != nil {
				return err
			}
			if len(free) == len(part) {
				t.locked.Store(false)
			}
			if part = free; len(part) == 0 {
				continue
			}
		}
		args := []any{when}
		for _, i := range part {
			args = append(args, keys[i], holders[i])
		}
		if _, err := conn.ExecContext(ctx, fmt.Sprintf(t.statement(renewSQL), placeholders("(?, ?)", len(part))), args...); err != nil {
			t.locked.Store(true)
			return err
		}
	}
	return nil
}

// unlockedRows returns those of the rows that no other session has locked.
func (t *table) unlockedRows(ctx context.Context, conn *sql.Conn, keys []string, part []int) (free []int, err error) {
	at := make(map[string]int)
	var args []any
	for _, i := range part {
		at[keys[i]] = i
		args = append(args, keys[i])
	}
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(t.statement(unlockedSQL), placeholders("?", len(args))), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		if i, ok := at[key]; ok {
			free = append(free, i)
		}
	}
	return free, rows.Err()
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// placeholders returns n copies of one, with commas between them.
func placeholders(one string, n int) string { return strings.Repeat(one+", ", n-1) + one }
