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
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// A driver is access to the rows of one table: as a [lease.Driver] by the [relational.Driver] in it, whose
// Dialect it is. notify.go has Write and Listen.
type driver struct {
	relational.Driver
	db       *sql.DB
	ownDB    bool
	conns    client.Pool[conn]
	notifier notifier

	account string // of the DSN, as statements have it
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

// Moved implements [relational.Dialect]. The connection that waits, and idle ones of the program's pool, may
// lead to the former server, too.
func (d *driver) Moved() {
	d.conns.Moved()
	d.notifier.giveWay()
	if !d.ownDB {
		client.CloseIdle(d.notifier.ctx, d.db)
	}
}

func (d *driver) ReadRows(ctx context.Context, keys [][2]string, count bool) (relational.Answer, error) {
	return d.reading(ctx, readSQL, keys, "{count}", strconv.FormatBool(count))
}

func (d *driver) ListRows(ctx context.Context, kind lease.Kind, from string, limit int) (relational.Answer, error) {
	return d.reading(ctx, listSQL, nil, "{count}", "false", "{kind}", string(kind), "{from}", hex.EncodeToString([]byte(from)), "{limit}", strconv.Itoa(limit))
}

// reading runs a statement that begins with headSQL.
func (d *driver) reading(ctx context.Context, text string, data any, more ...string) (a relational.Answer, err error) {
	rows, err := d.query(ctx, d.statement(text, data, more...))
	if err != nil {
		return a, err
	}
	head := rows[0] // of headSQL
	if !off(string(head[4])) {
		d.conns.Moved() // the next connection may lead to the primary
		return a, errReadOnly
	}
	if strings.HasSuffix(string(head[3]), noPlace) {
		return a, errEngine
	}
	a = relational.Answer{Server: string(head[3]), Origin: string(head[2]), Records: int64(number(head[5]))}
	a.Items = func(_ uint64, decode relational.Decode) []lease.Item {
		items := make([]lease.Item, 0, len(rows)-1)
		for _, row := range rows[1:] {
			items = append(items, d.item(row, decode))
		}
		return items
	}
	return a, nil
}

// errEngine is the error of a table that somebody has altered.
var errEngine = fmt.Errorf("%w: the engine of the table is not InnoDB, and others keep no row locked, so that two processes could lead; an administrator can alter it: ALTER TABLE … ENGINE=InnoDB", backend.ErrDenied)

// item returns a row of itemSQL. The text of its column version has a hash, which shows whether somebody else
// than this package has written the row.
func (d *driver) item(row [][]byte, decode relational.Decode) lease.Item {
	k := lease.Key{Kind: lease.Kind(row[0]), Name: string(row[1])}
	it := lease.Item{Key: k, Version: string(row[3]), Created: string(row[4]), Value: decode(k, row[2])}
	random, _, _ := strings.Cut(it.Version, "-")
	it.Edited = it.Version != d.Version(random, k, string(row[2]))
	it.Age = time.Duration(min(number(row[5]), relational.MaxAge)) * time.Microsecond
	return it
}

// Version implements [relational.Dialect]. A transaction is a random text: see versionSQL and writtenSQL.
func (*driver) Version(random string, k lease.Key, value string) string {
	return random + "-" + shortHash(random+"\n"+string(k.Kind)+"\n"+k.Name+"\n"+value) + "." + shortHash(value)
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

func (d *driver) SetOrigin(ctx context.Context, origin, kept string) error {
	_, err := d.query(ctx, d.statement(originSQL, nil, "{value}", literal(origin), "{kept}", literal(kept)))
	return err
}

func (d *driver) Change(ctx context.Context, b *relational.Batch) (c relational.Changed, err error) {
	statements := []string{"START TRANSACTION", d.statement(changesSQL, b.Rows)}
	for _, s := range []struct {
		needed bool
		text   string
	}{{b.Inserts, lockSQL}, {true, compareSQL}, {b.Updates, updateSQL}, {b.Deletes, deleteSQL}, {b.Inserts, insertSQL}} {
		if s.needed {
			statements = append(statements, d.statement(s.text, nil, "{epoch}", literal(b.Epoch)))
		}
	}
	rows, err := d.query(ctx, append(statements, "COMMIT", d.statement(resultSQL, b.Verify))...)
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
	c.Transaction = string(rows[head][2])
	for _, r := range rows[head+1:] {
		c.Stale = append(c.Stale, int(number(r[0])))
	}
	if err := json.Unmarshal(rows[head][1], &c.States); err != nil {
		return c, fmt.Errorf("the outcomes are %.100q: %w", rows[head][1], err)
	}
	return c, nil
}
