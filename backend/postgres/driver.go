package postgres

import (
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
)

// A driver is access to the rows of one table. It implements [lease.Driver] and [lease.Listener]. An
// item is a row with JSON. One more row has the epoch.
type driver struct {
	pool       *pgxpool.Pool // or nil
	db         *sql.DB       // or nil
	ownPool    bool
	table      table
	statements statements
	maxTTL     time.Duration
	keepSchema bool

	location, user, password string

	mu  sync.Mutex
	now origin

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	listening chan struct{} // held while listener is used
	listener  *pgx.Conn     // nil: none
	bells     atomic.Uint64 // how often something may have changed
}

var _ lease.Listener = (*driver)(nil)

// An origin is what a driver knows of the server that answers.
type origin struct {
	epoch    string // "": none has answered
	position uint64 // the greatest in the server's log
	wentBack int    // how often an older copy, or another server, has answered
	backTo   uint64 // transactions before this one may not be the latest; 0: they are
}

const minTTL = time.Second

// maxItems is how many puts and checks one change may have.
const maxItems = 64

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
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			d.pool.Close() // it waits many seconds for a server that it cannot reach
		}()
		select {
		case <-closed:
		case <-time.After(minTTL / 4):
		}
	}
	return nil
}

// The keys that a statement gets.
type keyRow struct {
	Kind lease.Kind `json:"k"`
	Name string     `json:"n"`
}

// Read implements [lease.Driver].
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	rows, count := make([]keyRow, len(keys)), "false"
	for i, k := range keys {
		if rows[i] = keyRow(k); k.Kind == lease.Metas {
			count = "true"
		}
	}
	v, found, err := d.reading(ctx, strings.NewReplacer("{payload}", payload(rows), "{count}", count).Replace(d.statements.read))
	if err != nil {
		return lease.View{}, d.fail(err)
	}
	items := make(map[lease.Key]lease.Item, len(found))
	for _, it := range found {
		items[it.Key] = it
	}
	for _, k := range keys {
		it, ok := items[k]
		if !ok {
			it = lease.Item{Key: k, Age: -1}
		}
		v.Items = append(v.Items, it)
	}
	return v, nil
}

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	// No name has a zero byte, and no text in PostgreSQL.
	before, _, after := strings.Cut(from, "\x00")
	r := strings.NewReplacer("{count}", "false", "{limit}", strconv.Itoa(limit), "{payload}", payload(struct {
		Kind  lease.Kind `json:"k"`
		From  string     `json:"f"`
		After bool       `json:"x"`
	}{kind, before, after}))
	v, v.Items, err = d.reading(ctx, r.Replace(d.statements.list))
	return v, d.fail(err)
}

// reading runs a statement that begins with headSQL. The first process that finds a new server or
// timeline gives it an identity, and reads again.
func (d *driver) reading(ctx context.Context, statement string) (v lease.View, items []lease.Item, err error) {
	for range 3 {
		before, bells := d.origin(), d.bells.Load()+1
		results, err := d.exec(ctx, statement)
		if err != nil {
			return v, nil, err
		}
		head, rows := results[1], results[2]
		here, position, next, kept := text(head, 0, 0), number(head, 0, 1), number(head, 0, 2), text(head, 0, 3)
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
		o := d.note(epoch, position, next, &before)
		v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Position: bells, Records: int64(number(head, 0, 4))}
		for i := range rows.Rows {
			items = append(items, item(rows, i, &o))
		}
		return v, items, nil
	}
	return v, nil, fmt.Errorf("%w: the row with the epoch keeps changing", backend.ErrUnavailable)
}

// item returns a row of itemSQL.
func item(r *pgconn.Result, i int, o *origin) lease.Item {
	k := lease.Key{Kind: lease.Kind(text(r, i, 0)), Name: text(r, i, 1)}
	it := lease.Item{Key: k, Version: text(r, i, 3) + "." + text(r, i, 4), Created: text(r, i, 5), Value: lease.Decode(k.Kind, r.Rows[i][2])}
	written := number(r, i, 3)
	it.Edited = number(r, i, 4) != written&0xffffffff // xmin is of the last writer, whoever that was
	it.Old = written < o.backTo
	age, _ := strconv.ParseInt(text(r, i, 6), 10, 64)
	it.Age = time.Duration(max(0, age)) * time.Microsecond
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

// The origin's row has the epoch, which is server, timeline and a random text, and the greatest TTL.
// Two standbys that are promoted in turn may have the same timeline.
var originText = regexp.MustCompile(`^([0-9]+\.[0-9A-F]{8}\.[0-9a-f]{8,64}) max_ttl=([0-9a-z.]{1,20})$`)

func parseOrigin(kept string) (epoch string, maxTTL time.Duration) {
	m := originText.FindStringSubmatch(kept)
	if m == nil {
		return "", 0
	}
	maxTTL, _ = time.ParseDuration(m[2])
	return m[1], maxTTL
}

// makeOrigin writes the row, if it is still as it was read.
func (d *driver) makeOrigin(ctx context.Context, here, kept string, maxTTL time.Duration) error {
	if maxTTL == 0 {
		maxTTL = d.maxTTL
	}
	p := payload(map[string]string{"w": kept, "v": fmt.Sprintf("%s.%s max_ttl=%v", here, string(backend.NewNonce()), maxTTL)})
	_, err := d.exec(ctx, strings.ReplaceAll(d.statements.origin, "{payload}", p))
	return err
}

// origin returns what is known before a call.
func (d *driver) origin() origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// note notes an answer: the next transaction of the server was next. before is what was known when the
// call began. Unless the store went back, the answer is of the same epoch and not from before that.
func (d *driver) note(epoch string, position, next uint64, before *origin) origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before.epoch != "" && (epoch != before.epoch || position < before.position) {
		if d.now.epoch == before.epoch && d.now.wentBack == before.wentBack { // else another call has noticed
			d.now = origin{wentBack: d.now.wentBack + 1, backTo: next}
		}
	}
	d.now.epoch, d.now.position = epoch, max(d.now.position, position)
	return d.now
}

var errStandby = errors.New("the server is a standby, which is read-only")
