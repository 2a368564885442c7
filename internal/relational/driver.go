// Package relational is what the drivers of SQL databases have in common. Items are the rows of one
// table. One more row has the origin: the identity of the server, and the greatest TTL. A Dialect has
// the statements.
package relational

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
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
	// ReadRows reads the items of keys: kind and name. If count is set, it counts the records.
	ReadRows(ctx context.Context, keys [][2]string, count bool) (Answer, error)

	// ListRows reads as lease.Driver.List does.
	ListRows(ctx context.Context, kind lease.Kind, from string, limit int) (Answer, error)

	// Change makes a batch in one transaction.
	Change(ctx context.Context, b *Batch) (Changed, error)

	// Version returns the version of an item that a transaction has written.
	Version(transaction string, k lease.Key, value string) string

	// SetOrigin writes the row of the origin, if it still has the text kept; "": if it is not there.
	SetOrigin(ctx context.Context, origin, kept string) error

	// Moved is called when another server has answered than before. Connections that are open may lead to
	// either: none of them is used for a later call.
	Moved()

	// Survey asks where the table is, and for whom.
	Survey(ctx context.Context) (Survey, error)

	// CreateTable creates the table in its schema if it is not there.
	CreateTable(ctx context.Context, t Table) error

	// Grant gives an account the rights of a member.
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

	// Items returns the items, whose values decode makes of their texts. Those that a transaction before
	// backTo has written are Old.
	Items func(backTo uint64, decode Decode) []lease.Item
}

// A Driver implements lease.Driver, except for Close. Its fields are set before its first call.
type Driver struct {
	Notifications
	Dialect Dialect

	Name           string // of the backend
	Location       string // of the table; "": not known
	Table          Table  // as it was named: see Place
	MinTTL, MaxTTL time.Duration
	KeepSchema     bool // not to create the table
	Password       client.Secret

	settled atomic.Pointer[Table] // the table with its schema, if none was named; nil: not known yet

	mu     sync.Mutex
	known  origin
	former map[string]time.Time // servers that another has replaced, and when

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
)

// MaxAge is the greatest age of a row, in microseconds: a longer one would be no duration.
const MaxAge = 1e15

// Limits implements [lease.Driver]. A failover may lose what was acknowledged. Renewals lock no record, so
// that somebody who keeps one locked ends no leadership.
func (d *Driver) Limits() lease.Limits {
	return lease.Limits{Name: d.Name, MinTTL: d.MinTTL, MaxTTL: d.MaxTTL, Loses: true, Batch: maxItems, MaxValue: maxValue}
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
		read, err := d.reading(ctx, decode, func() (Answer, error) {
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

// List implements [lease.Driver].
func (d *Driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	return d.reading(ctx, decodeEach, func() (Answer, error) { return d.Dialect.ListRows(ctx, kind, from, limit) })
}

// reading makes a View of an answer. The first process that finds a new server gives it an epoch, and
// reads again.
func (d *Driver) reading(ctx context.Context, decode Decode, read func() (Answer, error)) (v lease.View, err error) {
	if _, err := d.Place(ctx); err != nil {
		return v, d.Fail(err)
	}
	var over *string // what a row that this call wrote has replaced; nil: it wrote none
	for tries := range 4 {
		before, position := d.origin(), d.Position()
		a, err := read()
		if err != nil {
			return v, d.Explain(ctx, err)
		}
		if last := serverOf(d.Epoch()); last != "" && last != a.Server {
			d.Dialect.Moved()
		}
		epoch, maxTTL := parseOrigin(a.Origin)
		if serverOf(epoch) != a.Server {
			// Another process has found another server since, which shares the rows. If new connections lead
			// there, this one is of before; with each process on its own server they would go on giving the
			// rows new epochs.
			if tries == 0 && epoch != "" && serverOf(d.Epoch()) == a.Server {
				d.Dialect.Moved()
				continue
			}
			// Before the last try a node of a cluster may not have heard of it.
			if tries == 3 && over != nil && (epoch == "" || a.Origin == *over) {
				return v, fmt.Errorf("%w: the table %s does not keep what is written to it: "+
					"look for triggers, rules and columns of other types", backend.ErrDenied, d.Settled())
			}
			over = &a.Origin
			made := fmt.Sprintf("%s.%s max_ttl=%v", a.Server, string(backend.NewNonce()), cmp.Or(maxTTL, d.MaxTTL))
			switch err := d.Dialect.SetOrigin(ctx, made, a.Origin); {
			case err == nil:
				continue
			case !d.Dialect.Fault(err).MayNotWrite:
				return v, d.Explain(ctx, err)
			}
			epoch = a.Server + ".unknown" // this is an observer
		}
		if maxTTL != 0 && maxTTL != d.MaxTTL {
			return v, fmt.Errorf("%w: max_ttl is %v, and that of the table %s is %v: all processes need the same; docs/%s.md says how to change it", backend.ErrDenied, d.MaxTTL, d.Table, maxTTL, d.Name)
		}
		o, ok, err := d.note(epoch, a.Position, a.Next, &before)
		if err != nil {
			return v, err
		}
		if ok {
			return lease.View{Items: a.Items(o.backTo, decode), Epoch: o.epoch, WentBack: o.wentBack, Position: position, Records: a.Records}, nil
		}
	}
	return v, lease.ErrEpoch
}

// originText is that of the row: the epoch, and the greatest TTL. The epoch is the server with its table,
// since a copy of the rows in another table is another store, and a random text, since the rows may be
// deleted.
var originText = regexp.MustCompile(`^([!-~]{1,250}\.[0-9a-f]{8,64}) max_ttl=([0-9a-z.]{1,20})$`)

func parseOrigin(text string) (epoch string, maxTTL time.Duration) {
	if m := originText.FindStringSubmatch(text); m != nil {
		epoch = m[1]
		maxTTL, _ = time.ParseDuration(m[2])
	}
	return epoch, maxTTL
}

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

// note notes an answer. before is what was known when the call began. Unless the store went back, the
// answer is of the same epoch and not from before that. ok is false if another call has noticed that
// meanwhile: the answer may be of either store. A server may replace another. Servers that take turns all
// accept writes, and then no lease means anything.
func (d *Driver) note(epoch string, position, next uint64, before *origin) (o origin, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known.wentBack != before.wentBack {
		return d.known, false, nil
	}
	if before.epoch != "" && (epoch != before.epoch || position < before.position) {
		d.known = origin{wentBack: before.wentBack + 1, backTo: next}
		if server, last := serverOf(epoch), serverOf(before.epoch); server != last {
			if replaced, ok := d.former[server]; ok && time.Since(replaced) < d.MaxTTL {
				err = fmt.Errorf("%w: two servers, or tables of one name, take turns behind this address: %q and %q; "+
					"all members must write to one (a single primary, no round robin, no read-write splitting)", backend.ErrDenied, server, last)
			}
			if d.former == nil {
				d.former = map[string]time.Time{}
			}
			maps.DeleteFunc(d.former, func(_ string, replaced time.Time) bool { return time.Since(replaced) >= d.MaxTTL })
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
	if d.Dialect.Fault(err).Denied && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
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
