package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// A driver is access to the rows of one table. It implements [lease.Driver], [lease.Listener] and
// [relational.Dialect].
type driver struct {
	relational.Driver
	db       *sql.DB
	ownDB    bool
	conns    client.Pool[conn]
	notifier notifier

	identity atomic.Pointer[string] // in the dialect of the server of the newest connection
	values   atomic.Pointer[values] // of the last large reading

	location string
	account  string // of the DSN, as statements have it
}

var _ lease.Listener = (*driver)(nil)

const minTTL = 500 * time.Millisecond

// Close implements [lease.Driver].
func (d *driver) Close() error {
	d.notifier.cancel()
	d.notifier.pending.Wait() // at most notifyWithin: a last release is news, too
	d.conns.End()
	if d.ownDB {
		return d.db.Close()
	}
	return nil
}

// Moved implements [relational.Dialect]. Idle connections of the program's pool may lead to the former server, too.
func (d *driver) Moved() {
	d.conns.Moved()
	if !d.ownDB {
		client.CloseIdle(d.notifier.ctx, d.db)
	}
}

// ReadRows implements [relational.Dialect].
func (d *driver) ReadRows(ctx context.Context, keys [][2]string, count bool) (relational.Answer, error) {
	return d.reading(ctx, readSQL, keys, "{count}", strconv.FormatBool(count))
}

// ListRows implements [relational.Dialect].
func (d *driver) ListRows(ctx context.Context, kind lease.Kind, from string, limit int) (relational.Answer, error) {
	return d.reading(ctx, listSQL, nil, "{count}", "false", "{kind}", string(kind), "{from}", hex.EncodeToString([]byte(from)), "{limit}", strconv.Itoa(limit))
}

// reading runs a statement that begins with headSQL.
func (d *driver) reading(ctx context.Context, text string, data any, more ...string) (a relational.Answer, err error) {
	rows, err := d.queryEach(ctx, func() []string { return []string{d.statement(text, data, more...)} })
	if err != nil {
		return a, err
	}
	head := rows[0]
	if !off(string(head[4])) {
		d.conns.Moved() // the next connection may lead to the primary
		return a, errReadOnly
	}
	if strings.HasSuffix(string(head[3]), noPlace) {
		return a, errEngine
	}
	a = relational.Answer{Server: string(head[3]), Origin: string(head[2]), Records: int64(number(head[5]))}
	a.Items = func(uint64) []lease.Item { return d.items(rows[1:]) }
	return a, nil
}

// errEngine is the error of a table that somebody has altered.
var errEngine = fmt.Errorf("%w: the engine of the table is not InnoDB, and others keep no row locked, so that two processes could lead; an administrator can alter it: ALTER TABLE … ENGINE=InnoDB", backend.ErrDenied)

// values are what was decoded, by key and Version. A follower of thousands reads them all once a TTL,
// and hardly any has changed. Whoever is granted leases reads them no more.
type values map[lease.Key]value

type value struct {
	version string
	lease.Value
	edited bool
}

// largeReading is the number of rows from which values are kept.
const largeReading = 256

// items returns rows of itemSQL. It decodes those that the last large reading did not have.
func (d *driver) items(rows [][][]byte) []lease.Item {
	items, last := make([]lease.Item, len(rows)), values{}
	if known := d.values.Load(); known != nil {
		last = *known
	}
	for i, row := range rows {
		k := lease.Key{Kind: lease.Kind(row[0]), Name: string(row[1])}
		v, ok := last[k]
		if !ok || v.version != string(row[3]) {
			v = value{string(row[3]), lease.Decode(k.Kind, row[2]), edited(k, row)}
		}
		items[i] = lease.Item{Key: k, Version: v.version, Created: string(row[4]), Value: v.Value, Edited: v.edited, Age: time.Duration(min(number(row[5]), relational.MaxAge)) * time.Microsecond}
	}
	if len(rows) >= largeReading {
		now := make(values, len(rows))
		for i := range items {
			now[items[i].Key] = value{items[i].Version, items[i].Value, items[i].Edited}
		}
		d.values.Store(&now)
	}
	return items
}

// edited reports whether somebody else than this package has written a row of itemSQL.
func edited(k lease.Key, row [][]byte) bool {
	written, _, _ := strings.Cut(string(row[3]), ".")
	random, _, _ := strings.Cut(written, "-")
	return written != newVersion(random, k, string(row[2]))
}

// newVersion returns the text of the column version for a value. Nobody but this package writes it.
func newVersion(random string, k lease.Key, value string) string {
	return random + "-" + shortHash(random+"\n"+string(k.Kind)+"\n"+k.Name+"\n"+value)
}

// version returns the Version of an item with that text and value: see versionSQL.
func version(written, value string) string {
	return written + "." + shortHash(value)
}

// shortHash is what LEFT(SHA2(text, 256), 12) returns.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func number(text []byte) uint64 {
	n, _ := strconv.ParseUint(string(text), 10, 64)
	return n
}

// Version implements [relational.Dialect]. A transaction is a random text.
func (*driver) Version(transaction string, k lease.Key, value string) string {
	return version(newVersion(transaction, k, value), value)
}

// SetOrigin implements [relational.Dialect].
func (d *driver) SetOrigin(ctx context.Context, origin, kept string) error {
	_, err := d.queryEach(ctx, func() []string {
		return []string{d.statement(originSQL, nil, "{value}", literal(origin), "{kept}", literal(kept))}
	})
	return err
}

// Change implements [relational.Dialect]. Each copy of the message has versions of its own: a late one must
// not make an item again that was deleted.
func (d *driver) Change(ctx context.Context, b *relational.Batch) (c relational.Changed, err error) {
	if slices.ContainsFunc(b.Rows, func(r relational.Row) bool { return r.Kind == lease.Records && r.Put > 0 }) {
		d.values.Store(nil)
	}
	rows, err := d.queryEach(ctx, func() []string {
		c.Transaction = string(backend.NewNonce()[:16])
		for i := range b.Rows {
			if r := &b.Rows[i]; r.Value != nil {
				r.Extra = newVersion(c.Transaction, r.Key, *r.Value)
			}
		}
		statements := []string{"START TRANSACTION", d.statement(changesSQL, b.Rows)}
		for _, s := range []struct {
			needed bool
			text   string
		}{{b.Inserts, lockSQL}, {true, compareSQL}, {b.Updates, updateSQL}, {b.Deletes, deleteSQL}, {b.Inserts, insertSQL}} {
			if s.needed {
				statements = append(statements, d.statement(s.text, nil, "{epoch}", literal(b.Epoch)))
			}
		}
		return append(statements, "COMMIT", d.statement(resultSQL, relational.Versions(b.Verify)))
	})
	if err != nil {
		return c, err
	}
	head := slices.IndexFunc(rows, func(r [][]byte) bool { return string(r[0]) == "-1" })
	if head < 0 {
		return c, errors.New("the result of a transaction is missing")
	}
	if rows[head][1] == nil {
		return c, nil // another store
	}
	for _, r := range rows[head+1:] {
		c.Stale = append(c.Stale, int(number(r[0])))
	}
	if err := json.Unmarshal(rows[head][1], &c.States); err != nil {
		return c, fmt.Errorf("the outcomes are %.100q: %w", rows[head][1], err)
	}
	return c, nil
}
