// Package relational is what the drivers of SQL databases have in common. Items are the rows of one table.
// One more row has the origin: the server's identity, and the greatest TTL. A Dialect has the statements.
package relational

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A Dialect is access to a kind of server.
type Dialect interface {
	// ReadRows reads the items of keys: kind and name. If count is set, it counts the records. ListRows reads
	// as lease.Driver.List does.
	ReadRows(ctx context.Context, keys [][2]string, count bool) (Answer, error)
	ListRows(ctx context.Context, kind lease.Kind, from string, limit int) (Answer, error)

	// Change makes a batch in one transaction.
	Change(ctx context.Context, b *Batch) (Changed, error)

	// Version returns the version of an item that a transaction has written.
	Version(transaction string, k lease.Key, value string) string

	// SetOrigin writes the row of the origin, if it still has the text kept; "": if it is not there.
	SetOrigin(ctx context.Context, origin, kept string) error

	// ServerChanged is called when another server has answered than before: no open connection is used again.
	ServerChanged()

	// Survey asks where the table is, and for whom.
	Survey(ctx context.Context) (Survey, error)

	// CreateTable creates the table in its schema if it is not there. Grant gives the rights of a member.
	CreateTable(ctx context.Context, t Table) error
	Grant(ctx context.Context, t Table, account string) error

	// Inspect says what matters of the server, whose table can be read.
	Inspect(ctx context.Context) ([]backend.Diagnostic, error)

	// Fault says what an error means.
	Fault(err error) Fault

	// Hint says what an administrator must do: "; …", or "". The Survey is empty if none was made.
	Hint(err error, s *Survey) string
}

// A Fault is what an error means.
type Fault struct {
	Denied      bool // an administrator must act
	MayNotWrite bool // the account lacks a right
	Lacks       bool // the table, or a right to it, is what a statement lacks: a Survey says more
	OfOneChange bool // one change of a batch may have failed the others
	Soon        bool // a change may succeed if it is tried again
}

// An Answer is what a server has answered to a reading.
type Answer struct {
	Server  string // the identity of the server that has answered, and of its table
	Origin  string // the text of that row; "": it is not there
	Records int64

	// Position is that of the answer in what the server has flushed, and Next the number of its next
	// transaction. Zero: the server does not number them.
	Position, Next uint64

	Rows [][][]byte // kind, name, value, version and creator of items, and their age in microseconds
}

// A Driver implements lease.Driver, except for Close. Its fields are set before its first call.
type Driver struct {
	Dialect Dialect
	Context context.Context // ends with End
	End     context.CancelFunc

	Name           string // of the backend
	Location       string // of the table; "": not known
	Table          Table  // as it was named: see Place
	MinTTL, MaxTTL time.Duration
	KeepSchema     bool // not to create the table
	Password       client.Secret

	settled atomic.Pointer[Table] // the table with its schema, if none was named; nil: not known yet
	unmade  atomic.Bool           // the table was not found, could not be made, and was not read since

	mu      sync.Mutex
	known   origin
	former  map[string]time.Time // servers that another has replaced, and when
	count   uint64               // how often something may have changed
	changed chan struct{}        // closed when the count grows; nil: nobody waits

	values atomic.Pointer[values] // of the last large reading; nil: none
}

// An origin is what a Driver knows of the server that answers.
type origin struct {
	epoch    string // "": none has answered
	position uint64 // the greatest
	wentBack int    // how often an older copy, or another server, has answered
	backTo   uint64 // transactions before this one may not be the latest; 0: they are
}

const (
	maxItems = 64        // puts and checks in one change
	maxValue = 256 << 10 // of a value, which is longer in a message: see maxMessage
	maxAge   = 1e15      // of a row, in microseconds: a longer one would be no duration
)

// Limits implements [lease.Driver]. A failover may lose what was acknowledged. Renewals lock no record, so
// that somebody who keeps one locked ends no leadership.
func (d *Driver) Limits() lease.Limits {
	return lease.Limits{Name: d.Name, MinTTL: d.MinTTL, MaxTTL: d.MaxTTL, MaxValue: maxValue,
		Batch: maxItems, Loses: true}
}

// Read implements [lease.Driver]. Many items are read in several messages, the meta item in the last one,
// since it must not be older than any other.
func (d *Driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	rows, meta := [][2]string{}, [][2]string{}
	for _, k := range keys {
		if row := [2]string{string(k.Kind), k.Name}; k.Kind == lease.Metas {
			meta = append(meta, row)
		} else {
			rows = append(rows, row)
		}
	}
	parts := cut(append(rows, meta...))
	decode, keep := d.decoder(len(keys))
	defer keep()
	for i, part := range parts {
		read, err := d.view(ctx, decode, func() (Answer, error) {
			return d.Dialect.ReadRows(ctx, part, len(meta) > 0 && i == len(parts)-1)
		})
		switch {
		case err != nil:
			return v, err
		case i == 0:
			v = read
		case read.Epoch != v.Epoch || read.WentBack != v.WentBack:
			return v, lease.ErrEpoch
		default:
			v.Items, v.Records = append(v.Items, read.Items...), read.Records
		}
	}

	found := make(map[lease.Key]lease.Item, len(v.Items))
	for _, it := range v.Items {
		found[it.Key] = it
	}
	v.Items = make([]lease.Item, len(keys))
	for i, k := range keys {
		v.Items[i] = found[k]
		v.Items[i].Key = k
	}
	return v, nil
}

func (d *Driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	list := func() (Answer, error) { return d.Dialect.ListRows(ctx, kind, from, limit) }
	return d.view(ctx, decodeEach, list)
}

// view makes a View of an answer. The first process that finds a new server gives it an epoch, and retries.
func (d *Driver) view(ctx context.Context, dec decode, ask func() (Answer, error)) (v lease.View, _ error) {
	if d.unmade.Load() {
		d.prepare(ctx) // the account may have got the right by now
	}
	if _, err := d.Place(ctx); err != nil {
		return v, d.Fail(err)
	}
	var over *string // what a row that this call wrote has replaced; nil: it wrote none
	for tries := range 4 {
		before, position := d.origin(), d.Position()
		a, err := ask()
		if err != nil {
			return v, d.Explain(ctx, err)
		}
		d.unmade.Store(false)
		if last := serverOf(d.Epoch()); last != "" && last != a.Server {
			d.Dialect.ServerChanged()
		}
		epoch, maxTTL := "", time.Duration(0)
		if m := originText.FindStringSubmatch(a.Origin); m != nil {
			epoch = m[1]
			maxTTL, _ = time.ParseDuration(m[2])
		}
		if serverOf(epoch) != a.Server {
			// Another process has found another server since, which shares the rows. If new connections lead
			// there, this one is of before. Processes that differ would go on giving the rows new epochs.
			if tries == 0 && epoch != "" && serverOf(d.Epoch()) == a.Server {
				d.Dialect.ServerChanged()
				continue
			}
			// Before the last try a node of a cluster may not have heard of it.
			if tries == 3 && over != nil && (epoch == "" || a.Origin == *over) {
				return v, fmt.Errorf("%w: the table %s does not keep what is written to it: "+
					"look for triggers, rules and columns of other types", backend.ErrDenied, d.Settled())
			}
			over = &a.Origin
			ttl := cmp.Or(maxTTL, d.MaxTTL)
			made := fmt.Sprintf("%s.%s max_ttl=%v", a.Server, string(backend.NewNonce()), ttl)
			switch err := d.Dialect.SetOrigin(ctx, made, a.Origin); {
			case err == nil:
				continue
			case !d.Dialect.Fault(err).MayNotWrite:
				return v, d.Explain(ctx, err)
			}
			epoch = a.Server + ".unknown" // this is an observer
		}
		if maxTTL != 0 && maxTTL != d.MaxTTL {
			return v, fmt.Errorf("%w: max_ttl is %v, and that of the table %s is %v: all processes need "+
				"the same; docs/%s.md says how to change it",
				backend.ErrDenied, d.MaxTTL, d.Table, maxTTL, d.Name)
		}
		o, ok, err := d.note(epoch, a.Position, a.Next, &before)
		if err != nil {
			return v, err
		}
		if ok {
			v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Position: position, Records: a.Records}
			v.Items = make([]lease.Item, len(a.Rows))
			for i, row := range a.Rows {
				v.Items[i] = d.item(row, o.backTo, dec)
			}
			return v, nil
		}
	}
	return v, lease.ErrEpoch
}

// item returns the item of a row. What a transaction before backTo has written is Old. A version begins with
// its transaction, and names what that has written: see Dialect.Version.
func (d *Driver) item(row [][]byte, backTo uint64, decode decode) lease.Item {
	k := lease.Key{Kind: lease.Kind(row[0]), Name: string(row[1])}
	it := lease.Item{Key: k, Version: string(row[3]), Created: string(row[4]), Value: decode(k, row[2])}

	by := it.Version[:max(0, strings.IndexAny(it.Version, "-."))]
	it.Edited = it.Version != d.Dialect.Version(by, k, string(row[2]))
	number, _ := strconv.ParseUint(by, 10, 64)
	it.Old = number < backTo

	age, _ := strconv.ParseUint(string(row[5]), 10, 64)
	it.Age = time.Duration(min(age, maxAge)) * time.Microsecond
	return it
}

// originText is that of the row: the epoch, and the greatest TTL. The epoch is the server with its table,
// since a copy of the rows elsewhere is another store, and a random text, since rows may be deleted.
var originText = regexp.MustCompile(`^([!-~]{1,250}\.[0-9a-f]{8,64}) max_ttl=([0-9a-z.]{1,20})$`)

// serverOf returns the server of an epoch; "" of none.
func serverOf(epoch string) string { return epoch[:max(0, strings.LastIndexByte(epoch, '.'))] }

// origin returns what is known before a call.
func (d *Driver) origin() origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// Epoch returns that of the last answer; "" before the first one.
func (d *Driver) Epoch() string { return d.origin().epoch }

// note notes an answer. before is what was known when the call began: unless the store went back, the answer
// is of the same epoch, and no older. ok is false if another call has noticed that meanwhile: the answer may
// be of either store. A server may replace another. If they take turns all accept writes, and no lease
// counts.
func (d *Driver) note(epoch string, position, next uint64, before *origin) (o origin, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known.wentBack != before.wentBack {
		return d.known, false, nil
	}
	if before.epoch != "" && (epoch != before.epoch || position < before.position) {
		d.known = origin{wentBack: before.wentBack + 1, backTo: next}
		if server, last := serverOf(epoch), serverOf(before.epoch); server != last {
			maps.DeleteFunc(d.former, func(_ string, at time.Time) bool { return time.Since(at) >= d.MaxTTL })
			if _, ok := d.former[server]; ok {
				err = fmt.Errorf("%w: two servers, or tables of one name, take turns behind this address: "+
					"%q and %q; all members must write to one (a single primary, no round robin, "+
					"no read-write splitting)", backend.ErrDenied, server, last)
			}
			d.former[last] = time.Now()
		}
	}
	d.known.epoch, d.known.position = epoch, max(d.known.position, position)
	return d.known, true, err
}

// Fail adds to err its class and what an operator must do, and removes the password.
func (d *Driver) Fail(err error) error { return d.FailWith(err, &Survey{}) }

// Explain is Fail of a call that may ask the server what its statement lacks.
func (d *Driver) Explain(ctx context.Context, err error) error {
	s := Survey{}
	if err != nil && d.Dialect.Fault(err).Lacks {
		s, _ = d.Dialect.Survey(ctx)
	}
	return d.FailWith(err, &s)
}

// FailWith is Fail with what a server has said. Without that it says nothing of what an operator must do.
func (d *Driver) FailWith(err error, s *Survey) error {
	if err == nil {
		return nil
	}
	class, more := backend.Class(err), ""
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if d.Dialect.Fault(err).Denied && !ended {
		class = backend.ErrDenied
		if s != nil {
			more = d.Dialect.Hint(err, s)
		}
	}
	if err = clean.Secrets(err, d.Password.All()...); errors.Is(err, class) {
		return fmt.Errorf("%w%s", err, more)
	}
	return fmt.Errorf("%w: %w%s", class, err, more)
}

// Noted says that something may have changed.
func (d *Driver) Noted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// Position is how often something may have changed, plus one.
func (d *Driver) Position() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count + 1
}

// Listen calls on whenever the position has grown, until on returns false. wait waits for that.
func (d *Driver) Listen(ctx context.Context, position uint64,
	on func([]lease.Item, uint64) bool, wait func(context.Context, uint64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.Context, cancel)()
	for {
		now := d.Position()
		if position == 0 || position > now || position < now && !on(nil, now) {
			return nil
		}
		if position == now {
			if err := wait(ctx, now); err != nil {
				return err
			}
		}
		position = now
	}
}

// Wait waits until the position is not the given one.
func (d *Driver) Wait(ctx context.Context, position uint64) error {
	d.mu.Lock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	changed, now := d.changed, d.count+1
	d.mu.Unlock()
	if position != now {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
