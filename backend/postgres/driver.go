package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// A driver is access to the rows of one table. It implements [lease.Driver], [lease.Listener]
// and [relational.Dialect].
type driver struct {
	relational.Driver
	conns client.Pool[*conn]

	user string // of the account

	inUse func() (used, most int) // connections of the program's pool
	reset func()                  // closes its idle ones

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	listening chan struct{} // held by a call of Listen
}

var _ lease.Listener = (*driver)(nil)

const (
	minTTL   = time.Second
	minDB    = 2 // of the program's DB: one is kept, and its successor is opened before it is closed
	maxConns = 2 // of one Backend: one, unless that is slow, besides its successor for a moment
)

// Close implements [lease.Driver].
func (d *driver) Close() error {
	d.cancel()
	d.conns.End()
	return nil
}

// Moved implements [relational.Dialect]. Idle connections of the program's pool may lead to the former
// server, too.
func (d *driver) Moved() {
	d.conns.Moved()
	d.reset()
}

func (d *driver) ReadRows(ctx context.Context, keys [][2]string, count bool) (relational.Answer, error) {
	return d.reading(ctx, d.statement(readSQL, keys, "{count}", strconv.FormatBool(count)))
}

func (d *driver) ListRows(ctx context.Context, kind lease.Kind, from string, limit int) (relational.Answer, error) {
	first, _, after := strings.Cut(from, "\x00") // no name has a zero byte, and no text in PostgreSQL
	return d.reading(ctx, d.statement(listSQL, []any{kind, first, after}, "{count}", "false", "{limit}", strconv.Itoa(limit)))
}

var (
	errStandby  = errors.New("the server is a standby, which is read-only")
	errUnlogged = fmt.Errorf("%w: the table is UNLOGGED, and a crash of the server empties it, so that two processes could lead; its owner can alter it: ALTER TABLE … SET LOGGED", backend.ErrDenied)
)

// reading runs a statement that begins with headSQL.
func (d *driver) reading(ctx context.Context, statement string) (relational.Answer, error) {
	results, err := d.exec(ctx, statement)
	if err != nil {
		return relational.Answer{}, err
	}
	head, rows := results[0], results[1]
	a := relational.Answer{Server: text(head, 0, 0), Origin: text(head, 0, 3), Records: int64(number(head, 0, 4)), Position: number(head, 0, 1), Next: number(head, 0, 2)}
	if a.Server == "" {
		return a, errStandby
	}
	if strings.HasSuffix(a.Server, noPlace) {
		return a, errUnlogged
	}
	a.Items = func(backTo uint64, decode relational.Decode) []lease.Item {
		items := make([]lease.Item, 0, len(rows.Rows))
		for i := range rows.Rows {
			items = append(items, item(rows, i, backTo, decode))
		}
		return items
	}
	return a, nil
}

// item returns a row of itemSQL.
func item(r *pgconn.Result, i int, backTo uint64, decode relational.Decode) lease.Item {
	k := lease.Key{Kind: lease.Kind(text(r, i, 0)), Name: text(r, i, 1)}
	it := lease.Item{Key: k, Version: text(r, i, 3) + "." + text(r, i, 4), Created: text(r, i, 5), Value: decode(k, r.Rows[i][2])}
	it.Edited = it.Version != version(number(r, i, 3)) // the column xmin is of the last writer, whoever that was
	it.Old, it.Age = number(r, i, 3) < backTo, time.Duration(min(number(r, i, 6), relational.MaxAge))*time.Microsecond
	return it
}

// version is the Version of an item that a transaction of this package has written.
func version(transaction uint64) string {
	return strconv.FormatUint(transaction, 10) + "." + strconv.FormatUint(transaction&0xffffffff, 10)
}

func (*driver) Version(transaction string, _ lease.Key, _ string) string {
	n, _ := strconv.ParseUint(transaction, 10, 64)
	return version(n)
}

func number(r *pgconn.Result, row, column int) uint64 {
	n, _ := strconv.ParseUint(text(r, row, column), 10, 64)
	return n
}

func (d *driver) SetOrigin(ctx context.Context, origin, kept string) error {
	_, err := d.exec(ctx, d.statement(originSQL, []string{origin, kept}))
	return err
}

func (d *driver) Change(ctx context.Context, b *relational.Batch) (c relational.Changed, err error) {
	lock := ""
	if b.Inserts {
		lock = lockSQL
	}
	results, err := d.exec(ctx, d.statement(writingSQL+lock+writeSQL, map[string]any{"epoch": b.Epoch, "newest": b.Position, "rows": b.Rows, "notify": b.Notify})+
		d.statement(verifySQL, b.Verify))
	if err != nil {
		return c, err
	}
	answer, after := results[len(results)-2], results[len(results)-1]
	c.Position, c.Next = number(after, 0, 0), number(after, 0, 1)
	for _, i := range strings.Fields(text(after, 0, 2)) {
		n, _ := strconv.Atoi(i)
		c.Stale = append(c.Stale, n)
	}
	if text(answer, 0, 0) != "t" {
		return c, nil // another store
	}
	c.States = make(map[int]relational.State)
	for n, row := range answer.Rows {
		if row[1] == nil {
			continue // there is no change
		}
		state := relational.Made
		switch {
		case text(answer, n, 2) == "t":
			state = relational.Busy
		case text(answer, n, 3) != "t":
			state = relational.Refused
		default:
			c.Transaction = text(answer, n, 4)
		}
		c.States[int(number(answer, n, 1))] = state
	}
	return c, nil
}
