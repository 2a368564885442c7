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
	alert    alert
	conns    client.Pool[conn]
	notifier notifier
}

var _ lease.Listener = (*driver)(nil)

const minTTL = 500 * time.Millisecond

func (d *driver) Close() error {
	d.End()
	d.notifier.pending.Wait() // at most notifyWithin: a last release is news, too
	d.conns.End()
	if d.ownDB {
		return d.db.Close()
	}
	return nil
}

// ServerChanged implements [relational.Dialect], also for the connection that waits and idle ones.
func (d *driver) ServerChanged() {
	d.conns.Moved()
	d.notifier.giveWay()
	if !d.ownDB {
		client.CloseIdle(d.Context, d.db)
	}
}

func (d *driver) ReadRows(ctx context.Context, keys [][2]string, count bool) (relational.Answer, error) {
	return d.answer(ctx, d.statement(readSQL, keys, "{count}", strconv.FormatBool(count)))
}

func (d *driver) ListRows(ctx context.Context, k lease.Kind, from string, n int) (relational.Answer, error) {
	return d.answer(ctx, d.statement(listSQL, nil, "{count}", "false", "{kind}", string(k),
		"{from}", hex.EncodeToString([]byte(from)), "{limit}", strconv.Itoa(n)))
}

// answer runs a statement that begins with headSQL.
func (d *driver) answer(ctx context.Context, statement string) (a relational.Answer, err error) {
	rows, err := d.query(ctx, statement)
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
	a = relational.Answer{Server: string(head[3]), Origin: string(head[2]), Rows: rows[1:]}
	a.Records = int64(number(head[5]))
	return a, nil
}

// Version implements [relational.Dialect]. A transaction is a random text: see versionSQL and writtenSQL.
func (*driver) Version(random string, k lease.Key, value string) string {
	written := strings.Join([]string{random, string(k.Kind), k.Name, value}, "\n")
	return random + "-" + shortHash(written) + "." + shortHash(value)
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
	add := func(needed bool, text string) {
		if needed {
			statements = append(statements, d.statement(text, nil, "{epoch}", literal(b.Epoch)))
		}
	}
	add(b.Inserts, lockSQL)
	add(true, compareSQL)
	add(b.Updates, updateSQL)
	add(b.Deletes, deleteSQL)
	add(b.Inserts, insertSQL)
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
