package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/relational"
)

// A driver is access to the rows of one table. It implements [lease.Driver] and [lease.Listener]. An
// item is a row with JSON. One more row has the epoch.
type driver struct {
	db         *sql.DB
	table      table
	maxTTL     time.Duration
	keepSchema bool
	notifier   notifier

	idle     chan conn
	ownDB    bool
	closed   atomic.Bool
	identity atomic.Pointer[string] // in the dialect of the server of the newest connection
	single   atomic.Pointer[bool]   // whether the connections take one statement at a time

	location, password string
	dsn                login // what the DSN says of the account

	mu  sync.Mutex
	now origin
}

var _ lease.Listener = (*driver)(nil)

// An origin is what a driver knows of the server that answers.
type origin struct {
	epoch    string   // "": none has answered
	wentBack int      // how often another one has answered than before
	former   []former // servers before this one, the last one first
}

// A former server is one that another has replaced.
type former struct {
	server string
	at     time.Time
}

const maxFormer = 8 // are remembered

const (
	minTTL   = 500 * time.Millisecond
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
	d.notifier.close()
	return d.closeConns()
}

// Read implements [lease.Driver].
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	rows, count := make([][2]string, len(keys)), "0"
	for i, k := range keys {
		if rows[i] = [2]string{string(k.Kind), k.Name}; k.Kind == lease.Metas {
			count = "1"
		}
	}
	v, found, err := d.reading(ctx, readSQL, rows, "{count}", count)
	if err != nil {
		return lease.View{}, d.fail(err)
	}
	v.Items = relational.Arrange(keys, found)
	return v, nil
}

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	v, v.Items, err = d.reading(ctx, listSQL, nil, "{count}", "0", "{kind}", string(kind), "{from}", hex.EncodeToString([]byte(from)), "{limit}", strconv.Itoa(limit))
	return v, d.fail(err)
}

// reading runs a statement that begins with headSQL. The first process that finds a new server
// gives it an epoch, and reads again.
func (d *driver) reading(ctx context.Context, text string, data any, more ...string) (v lease.View, items []lease.Item, err error) {
	for range 3 {
		before, released := d.origin(), d.notifier.released.Load()+1
		rows, err := d.query(ctx, func() []string { return []string{d.statement(text, data, more...)} })
		if err != nil {
			return v, nil, err
		}
		head := rows[0]
		if !off(string(head[4])) {
			return v, nil, errReadOnly
		}
		here, kept := string(head[3]), string(head[2])
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
			return v, nil, fmt.Errorf("%w: max_ttl is %v, and that of the table %s is %v: all processes need the same; docs/mysql.md says how to change it", backend.ErrDenied, d.maxTTL, d.table, maxTTL)
		}
		o, ok, err := d.note(epoch, &before)
		if err != nil {
			return v, nil, err
		}
		if !ok {
			continue
		}
		v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Position: released, Records: int64(number(head[5]))}
		for _, row := range rows[1:] {
			items = append(items, item(row))
		}
		return v, items, nil
	}
	return v, nil, lease.ErrEpoch
}

// item returns a row of itemSQL.
func item(row [][]byte) lease.Item {
	k := lease.Key{Kind: lease.Kind(row[0]), Name: string(row[1])}
	it := lease.Item{Key: k, Version: string(row[3]), Created: string(row[4]), Value: lease.Decode(k.Kind, row[2]), Age: time.Duration(number(row[5])) * time.Microsecond}
	written, _, _ := strings.Cut(it.Version, ".")
	random, _, _ := strings.Cut(written, "-")
	it.Edited = written != newVersion(random, k, string(row[2]))
	return it
}

// newVersion returns the text of the column version for a value. Nobody but this package writes it.
func newVersion(random string, k lease.Key, value string) string {
	return fmt.Sprintf("%s-%.6x", random, sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s", random, k.Kind, k.Name, value)))
}

// version returns the Version of an item with that text and value: see versionSQL.
func version(written, value string) string {
	return fmt.Sprintf("%s.%.6x", written, sha256.Sum256([]byte(value)))
}

func number(text []byte) uint64 {
	n, _ := strconv.ParseUint(string(text), 10, 64)
	return n
}

// originText is that of the row with the epoch: server and a random text, since a table may be dropped and
// made again; and the greatest TTL.
var originText = regexp.MustCompile(`^([!-~]{1,250}\.[0-9a-f]{8,64}) max_ttl=([0-9a-z.]{1,20})$`)

func parseOrigin(kept string) (epoch string, maxTTL time.Duration) {
	if m := originText.FindStringSubmatch(kept); m != nil {
		epoch = m[1]
		maxTTL, _ = time.ParseDuration(m[2])
	}
	return epoch, maxTTL
}

// serverOf returns the server of an epoch.
func serverOf(epoch string) string { return epoch[:strings.LastIndexByte(epoch, '.')] }

// makeOrigin writes the row, if it is still as it was read.
func (d *driver) makeOrigin(ctx context.Context, here, kept string, maxTTL time.Duration) error {
	text := changeOriginSQL
	if kept == "" {
		text = makeOriginSQL
	}
	value := fmt.Sprintf("%s.%s max_ttl=%v", here, string(backend.NewNonce()), cmp.Or(maxTTL, d.maxTTL))
	_, err := d.query(ctx, func() []string {
		return []string{d.statement(text, nil, "{value}", literal(value), "{kept}", literal(kept))}
	})
	if is(err, errDuplicate) { // another process was faster
		return nil
	}
	return err
}

// origin returns what is known before a call.
func (d *driver) origin() origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// note notes the epoch of an answer. before is what was known when the call began. ok is false if
// another call has noticed another epoch meanwhile: the answer may be of either. A server may replace
// another. Servers that take turns all accept writes, and then no lease means anything.
func (d *driver) note(epoch string, before *origin) (o origin, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now.wentBack != before.wentBack {
		return d.now, false, nil
	}
	if before.epoch != "" && epoch != before.epoch {
		now, server, last := time.Now(), serverOf(epoch), serverOf(before.epoch)
		d.now = origin{wentBack: before.wentBack + 1, former: before.former}
		if server != last {
			if slices.ContainsFunc(before.former, func(f former) bool { return f.server == server && now.Sub(f.at) < d.maxTTL }) {
				err = fmt.Errorf("%w: two servers take turns behind this address: %q and %q; all members must write to one server (a single primary, no round robin, no read-write splitting)", backend.ErrDenied, server, last)
			}
			d.now.former = append([]former{{last, now}}, before.former[:min(len(before.former), maxFormer-1)]...)
		}
	}
	d.now.epoch = epoch
	return d.now, true, err
}
