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

// A driver is access to the rows of one table. It implements [lease.Listener] and [relational.Dialect].
type driver struct {
	relational.Driver
	conns client.Pool[*conn]

	user string // of the account

	inUse func() (used, most int) // connections of the program's pool
	reset func()                  // closes its idle ones

	listening chan struct{} // held by a call of Listen
}

var _ lease.Listener = (*driver)(nil)

const (
	minTTL   = time.Second
	minDB    = 2 // of the program's DB: one is kept, and its successor is opened before it is closed
	maxConns = 2 // of one Backend: one, unless that is slow, besides its successor for a moment

	beginLimit = time.Second // for a connection to begin to listen
)

func (d *driver) Close() error {
	d.End()
	d.conns.End()
	return nil
}

// ServerChanged implements [relational.Dialect], also for idle connections of the program's pool.
func (d *driver) ServerChanged() {
	d.conns.Moved()
	d.reset()
}

func (d *driver) ReadRows(ctx context.Context, keys [][2]string, count bool) (relational.Answer, error) {
	return d.answer(ctx, d.statement(readSQL, keys, "{count}", strconv.FormatBool(count)))
}

func (d *driver) ListRows(ctx context.Context, k lease.Kind, from string, n int) (relational.Answer, error) {
	first, _, after := strings.Cut(from, "\x00") // no name has a zero byte, and no text in PostgreSQL
	page := []any{k, first, after}
	return d.answer(ctx, d.statement(listSQL, page, "{count}", "false", "{limit}", strconv.Itoa(n)))
}

var (
	errStandby  = errors.New("the server is a standby, which is read-only")
	errUnlogged = fmt.Errorf("%w: the table is UNLOGGED, and a crash of the server empties it, so that two "+
		"processes could lead; its owner can alter it: ALTER TABLE … SET LOGGED", backend.ErrDenied)
)

// answer runs a statement that begins with headSQL.
func (d *driver) answer(ctx context.Context, statement string) (a relational.Answer, err error) {
	results, err := d.exec(ctx, statement)
	if err != nil {
		return a, err
	}
	head := results[0]
	a = relational.Answer{Server: text(head, 0, 0), Origin: text(head, 0, 3), Rows: results[1].Rows}
	a.Position, a.Next, a.Records = number(head, 0, 1), number(head, 0, 2), int64(number(head, 0, 4))
	switch {
	case a.Server == "":
		d.conns.Moved() // the next connection may lead to the primary
		return a, errStandby
	case strings.HasSuffix(a.Server, noPlace):
		return a, errUnlogged
	}
	return a, nil
}

// Version implements [relational.Dialect]: see versionSQL.
func (*driver) Version(transaction string, _ lease.Key, _ string) string {
	n, _ := strconv.ParseUint(transaction, 10, 64)
	return strconv.FormatUint(n, 10) + "." + strconv.FormatUint(n&0xffffffff, 10)
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
	write := writingSQL + writeSQL
	if b.Inserts {
		write = writingSQL + lockSQL + writeSQL
	}
	data := map[string]any{"epoch": b.Epoch, "newest": b.Position, "rows": b.Rows, "notify": b.Notify}
	results, err := d.exec(ctx, d.statement(write, data)+d.statement(verifySQL, b.Verify))
	switch {
	case code(err) == full && b.Notify: // no place for a notification, perhaps: others ask by themselves
		b.Notify = false
		return d.Change(ctx, b)
	case err != nil:
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
		change := int(number(answer, n, 1))
		switch {
		case row[1] == nil: // there is no change
		case text(answer, n, 2) == "t":
			c.States[change] = relational.Busy
		case text(answer, n, 3) != "t":
			c.States[change] = relational.Refused
		default:
			c.States[change], c.Transaction = relational.Made, text(answer, n, 4)
		}
	}
	return c, nil
}
