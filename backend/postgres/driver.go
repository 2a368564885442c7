package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/relational"
)

// A driver is access to the rows of one table. It implements [lease.Driver] and [lease.Listener]. An
// item is a row with JSON. One more row has the epoch.
type driver struct {
	pool       *pgxpool.Pool // or nil
	db         *sql.DB       // or nil
	ownPool    bool
	table      table
	maxTTL     time.Duration
	keepSchema bool

	location, user, password string

	mu  sync.Mutex
	now origin

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	listening chan struct{} // held while listener is used
	listener  *pgx.Conn     // nil: none
	notified  atomic.Uint64 // how often something may have changed
}

var _ lease.Listener = (*driver)(nil)

// An origin is what a driver knows of the server that answers.
type origin struct {
	epoch    string // "": none has answered
	position uint64 // the greatest in the server's log
	wentBack int    // how often an older copy, or another server, has answered
	backTo   uint64 // transactions before this one may not be the latest; 0: they are
}

const (
	minTTL   = time.Second
	maxConns = 3  // of one Backend to a DSN, besides the one that listens
	maxItems = 64 // puts and checks in one change
)

// Limits implements [lease.Driver]. A failover may lose what was acknowledged.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: minTTL, MaxTTL: d.maxTTL, Loses: true, Batch: maxItems, MaxValue: lease.MaxValue}
}

// Now implements [lease.Driver].
func (d *driver) Now() time.Time { return time.Now() }

// Close implements [lease.Driver].
func (d *driver) Close() error {
	d.cancel()
	d.listening <- struct{}{}
	defer func() { <-d.listening }()
	d.dropListener()
	if d.ownPool {
		go d.pool.Close() // it waits many seconds for a server that it cannot reach
	}
	return nil
}

// Read implements [lease.Driver].
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	rows, count := make([][2]string, len(keys)), "false"
	for i, k := range keys {
		if rows[i] = [2]string{string(k.Kind), k.Name}; k.Kind == lease.Metas {
			count = "true"
		}
	}
	v, found, err := d.reading(ctx, d.table.statement(readSQL, rows, "{count}", count))
	if err != nil {
		return lease.View{}, d.fail(err)
	}
	v.Items = relational.Arrange(keys, found)
	return v, nil
}

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	first, _, after := strings.Cut(from, "\x00") // no name has a zero byte, and no text in PostgreSQL
	v, v.Items, err = d.reading(ctx, d.table.statement(listSQL, []any{kind, first, after}, "{count}", "false", "{limit}", strconv.Itoa(limit)))
	return v, d.fail(err)
}

// reading runs a statement that begins with headSQL. The first process that finds a new server or
// timeline gives it an identity, and reads again.
func (d *driver) reading(ctx context.Context, statement string) (v lease.View, items []lease.Item, err error) {
	for range 3 {
		before, notified := d.origin(), d.notified.Load()+1
		results, err := d.exec(ctx, statement)
		if err != nil {
			return v, nil, err
		}
		head, rows := results[1], results[2]
		here, kept := text(head, 0, 0), text(head, 0, 3)
		if here == "" {
			return v, nil, errStandby
		}
		epoch, maxTTL := parseOrigin(kept)
		if !strings.HasPrefix(epoch, here+".") {
			switch err := d.makeOrigin(ctx, here, kept, maxTTL); {
			case err == nil:
				continue
			case !isDenied(err):
				return v, nil, err
			}
			epoch = here + ".unknown" // an observer may not write
		}
		if maxTTL != 0 && maxTTL != d.maxTTL {
			return v, nil, fmt.Errorf("%w: max_ttl is %v, and that of the table %s is %v: all processes need the same; docs/postgres.md says how to change it", backend.ErrDenied, d.maxTTL, d.table, maxTTL)
		}
		o, ok := d.note(epoch, number(head, 0, 1), number(head, 0, 2), &before)
		if !ok {
			continue
		}
		v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Position: notified, Records: int64(number(head, 0, 4))}
		for i := range rows.Rows {
			items = append(items, item(rows, i, &o))
		}
		return v, items, nil
	}
	return v, nil, lease.ErrEpoch
}

// item returns a row of itemSQL.
func item(r *pgconn.Result, i int, o *origin) lease.Item {
	k := lease.Key{Kind: lease.Kind(text(r, i, 0)), Name: text(r, i, 1)}
	it := lease.Item{Key: k, Version: text(r, i, 3) + "." + text(r, i, 4), Created: text(r, i, 5), Value: lease.Decode(k.Kind, r.Rows[i][2])}
	it.Edited = it.Version != version(number(r, i, 3)) // the column xmin is of the last writer, whoever that was
	it.Old, it.Age = number(r, i, 3) < o.backTo, time.Duration(number(r, i, 6))*time.Microsecond
	return it
}

// version is the Version of an item that a transaction of this package has written.
func version(transaction uint64) string {
	return strconv.FormatUint(transaction, 10) + "." + strconv.FormatUint(transaction&0xffffffff, 10)
}

func number(r *pgconn.Result, row, column int) uint64 {
	n, _ := strconv.ParseUint(text(r, row, column), 10, 64)
	return n
}

// originText is that of the row with the epoch: server, timeline and a random text, since two standbys
// that are promoted in turn may have the same timeline; and the greatest TTL.
var originText = regexp.MustCompile(`^([0-9]+\.[0-9A-F]{8}\.[0-9a-f]{8,64}) max_ttl=([0-9a-z.]{1,20})$`)

func parseOrigin(kept string) (epoch string, maxTTL time.Duration) {
	if m := originText.FindStringSubmatch(kept); m != nil {
		epoch = m[1]
		maxTTL, _ = time.ParseDuration(m[2])
	}
	return epoch, maxTTL
}

// makeOrigin writes the row, if it is still as it was read.
func (d *driver) makeOrigin(ctx context.Context, here, kept string, maxTTL time.Duration) error {
	_, err := d.exec(ctx, d.table.statement(originSQL, []string{fmt.Sprintf("%s.%s max_ttl=%v", here, string(backend.NewNonce()), cmp.Or(maxTTL, d.maxTTL)), kept}))
	return err
}

// origin returns what is known before a call.
func (d *driver) origin() origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// note notes an answer: the server's next transaction is next. before is what was known when the call
// began. Unless the store went back, the answer is of the same epoch and not from before that. ok is
// false if another call has noticed that meanwhile: the answer may be of either store.
func (d *driver) note(epoch string, position, next uint64, before *origin) (o origin, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now.wentBack != before.wentBack {
		return d.now, false
	}
	if before.epoch != "" && (epoch != before.epoch || position < before.position) {
		d.now = origin{wentBack: before.wentBack + 1, backTo: next}
	}
	d.now.epoch, d.now.position = epoch, max(d.now.position, position)
	return d.now, true
}

var errStandby = errors.New("the server is a standby, which is read-only")
