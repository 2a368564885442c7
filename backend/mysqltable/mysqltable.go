package mysqltable

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
)

// Name is how this backend is registered.
const Name = "mysqltable"

// Options says which table, and how the other programs treat it. All members of
// this module must have the same.
type Options struct {
	// DSN is in the form of github.com/go-sql-driver/mysql:
	// user:password@tcp(host:3306)/schema?tls=true. It is never shown. Config is
	// the same, taken apart; it is copied. Exactly one of them is set.
	DSN    string
	Config *driver.Config

	// Schema and Table name the other programs' table. Default: that of the
	// connection, and "leader_election".
	Schema, Table string

	// Layout is its shape. There is no default.
	Layout Layout

	// Threshold is after how long without a renewal the other programs take over:
	// the least of theirs, if they differ. Whole seconds, 3 or more. Default: 5 s
	// with LastSeenActive, 30 s with UpdateTime, none with LastActiveTime.
	Threshold time.Duration

	// Patience is the greatest of their thresholds, if they differ: how long a row
	// of theirs is watched. Default: Threshold.
	Patience time.Duration

	// Period is the longest time between two looks of such a program at its row: so
	// long it may lead on after an operator has named another, or deleted the row.
	// Default: 1 s with LastSeenActive, 10 s with UpdateTime, else a third of
	// Threshold.
	Period time.Duration

	// Zone is the time zone of the other programs' sessions, such as
	// Europe/Berlin, if that has daylight saving time: nobody leads across the
	// moment at which its clocks spring forward. Default: UTC.
	Zone string

	// Key returns an election's key in the table. It must return another for each
	// name. Nil: the name itself.
	Key func(election string) string

	// Prefix names the tables of this module's own; see [CreateTables]. Default:
	// "election_shared". A backend/mysql that these elections move to must have
	// another one.
	Prefix string

	// NotifyConns is that of [mysql.Options].
	NotifyConns int
}

// A Backend shares elections with other programs. It implements [backend.Backend].
type Backend struct {
	inner    *mysql.Backend // keeps the lease between members of this module
	rows     *sql.DB        // for the other programs' table
	options  Options
	shape    shape
	zone     *time.Location
	location string
	password string // to keep out of errors

	checked atomic.Bool // the table was found to be of the right shape
	locked  atomic.Bool // somebody seems to hold a row

	guard backend.SingleOwner
	mu    sync.Mutex
	me    backend.Candidate // who this Backend serves, as far as it is known
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the name of the type and nothing that may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysqltable.Options") }

// Format prints the name of the type and nothing that may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysqltable.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			DSN         string            `yaml:"dsn" json:"dsn"`
			Schema      string            `yaml:"schema" json:"schema"`
			Table       string            `yaml:"table" json:"table"`
			Layout      string            `yaml:"layout" json:"layout"`
			Threshold   time.Duration     `yaml:"threshold" json:"threshold"`
			Patience    time.Duration     `yaml:"patience" json:"patience"`
			Period      time.Duration     `yaml:"period" json:"period"`
			Zone        string            `yaml:"zone" json:"zone"`
			Keys        map[string]string `yaml:"keys" json:"keys"`
			Prefix      string            `yaml:"prefix" json:"prefix"`
			NotifyConns int               `yaml:"notify_conns" json:"notify_conns"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		o := Options{DSN: c.DSN, Schema: c.Schema, Table: c.Table, Layout: Layout(c.Layout), Threshold: c.Threshold,
			Patience: c.Patience, Period: c.Period, Zone: c.Zone, Prefix: c.Prefix, NotifyConns: c.NotifyConns}
		if len(c.Keys) > 0 {
			taken := make(map[string]string)
			for name, key := range c.Keys {
				if other, ok := taken[key]; ok {
					return nil, fmt.Errorf("mysqltable: %w: keys: %.80q and %.80q have the same key", backend.ErrInvalid, name, other)
				}
				taken[key] = name
			}
			o.Key = func(election string) string {
				if key, ok := c.Keys[election]; ok {
					return key
				}
				if taken[election] != "" {
					return "" // the key of another election; refused
				}
				return election
			}
		}
		return Open(o)
	})
}

const defaultPrefix = "election_shared"

// CreateTables makes the tables of this module's own that are not there yet:
// prefix_lease, prefix_term and prefix_member, as [mysql.CreateTables] does. It
// leaves the other programs' table alone.
func CreateTables(ctx context.Context, db *sql.DB, schema, prefix string) error {
	return mysql.CreateTables(ctx, db, schema, cmp.Or(prefix, defaultPrefix))
}

// CreateTables is the function of this name, for this Backend's tables and with its
// account, which then needs the right to CREATE as well as those of a member.
func (b *Backend) CreateTables(ctx context.Context) error {
	return b.inner.CreateTables(ctx)
}

// Open checks o and returns a Backend. It does not talk to the server, which may
// be down: the first call does.
func Open(o Options) (*Backend, error) {
	b, err := prepare(o)
	if err != nil {
		return nil, err
	}
	o = b.options
	if err := b.open(mysql.Options{DSN: o.DSN, Config: o.Config, Schema: o.Schema, Prefix: o.Prefix, NotifyConns: o.NotifyConns}, nil); err != nil {
		return nil, err
	}
	return b, nil
}

// open makes what keeps the leases, and the pool for the rows. wrap may be nil.
func (b *Backend) open(o mysql.Options, wrap func(sqldriver.Connector) sqldriver.Connector) error {
	inner, err := mysql.Open(o)
	if err != nil {
		return fmt.Errorf("mysqltable: %w", err)
	}
	b.inner = inner
	if b.rows, err = b.connect(wrap); err != nil {
		inner.Close()
		return fmt.Errorf("mysqltable: %w", err)
	}
	return nil
}

var identifier = regexp.MustCompile(`^[A-Za-z0-9_$]{1,64}$`)

// prepare checks options and fills in what is zero.
func prepare(o Options) (*Backend, error) {
	b := &Backend{options: o}
	if err := b.complete(); err != nil {
		return nil, fmt.Errorf("mysqltable: %w: %w", backend.ErrInvalid, err)
	}
	return b, nil
}

func (b *Backend) complete() (err error) {
	o := &b.options
	s, ok := shapes[o.Layout]
	if !ok {
		return fmt.Errorf("layout is %.40q; it must be last_active_time, last_seen_active or update_time: the column of the table that has the time", o.Layout)
	}
	b.shape = s
	o.Table = cmp.Or(o.Table, "leader_election")
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Threshold = cmp.Or(o.Threshold, s.threshold)
	o.Patience = cmp.Or(o.Patience, o.Threshold)
	o.Period = cmp.Or(o.Period, s.period, o.Threshold/3)
	switch {
	case !identifier.MatchString(o.Table), o.Schema != "" && !identifier.MatchString(o.Schema):
		return fmt.Errorf("table is %.60q and schema %.60q; they must be 1 to 64 ASCII letters, digits, underscores and dollar signs", o.Table, o.Schema)
	case o.Threshold == 0:
		return fmt.Errorf("threshold is missing: after how many seconds without a renewal the other programs take over")
	case o.Threshold < 3*time.Second || o.Threshold > time.Hour || o.Threshold%time.Second != 0:
		return fmt.Errorf("threshold is %v; it must be 3 s to 1 h, in whole seconds: the table's times have no fractions", o.Threshold)
	case o.Patience < o.Threshold || o.Patience > time.Hour || o.Patience%time.Second != 0:
		return fmt.Errorf("patience is %v; it must be the threshold of %v to 1 h, in whole seconds", o.Patience, o.Threshold)
	case o.Period <= 0 || o.Period >= o.Threshold:
		return fmt.Errorf("period is %v; it must be more than 0 and less than the threshold of %v", o.Period, o.Threshold)
	}
	if b.zone, err = time.LoadLocation(o.Zone); err != nil || o.Zone == "Local" {
		return fmt.Errorf("zone is %.60q; it must be a name such as Europe/Berlin, and this system must know it", o.Zone)
	}
	return nil
}

// lifetime is how long a row of ours is safe from the other programs, at least.
func (b *Backend) lifetime() time.Duration { return b.extra(b.options.Threshold) }

// watch is how long a row of theirs must be seen unchanged.
func (b *Backend) watch() time.Duration { return b.extra(b.options.Patience) }

func (b *Backend) extra(threshold time.Duration) time.Duration {
	if b.shape.strict {
		threshold += time.Second
	}
	return threshold
}

// Location implements [backend.Located]: where the other programs' table is.
func (b *Backend) Location() string { return b.location }

// Guarantees says what can be promised: that of MySQL between members of this
// module, and less about members of other programs. See the package documentation.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.inner.Guarantees()
	g.Name = Name
	// A row's time is cut to whole seconds, which costs up to one, and a write
	// and its reading take time.
	g.MaxTTL = b.lifetime() - 2*time.Second
	return g
}

// Close closes the connections. It does not release leases.
func (b *Backend) Close() error {
	if !b.guard.Close() {
		return nil
	}
	return errors.Join(b.inner.Close(), b.fail("close", b.rows.Close()))
}

// serve notes for whom this Backend works, and reports whether it is closed.
func (b *Backend) serve(ctx context.Context, me backend.Candidate) error {
	if err := b.guard.Enter(ctx, me.Nonce); err != nil {
		return fmt.Errorf("mysqltable: %w", err)
	}
	if me.Nonce != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.me = me
	}
	return nil
}

func (b *Backend) self() backend.Candidate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.me
}

// Listen waits for the notification lock of a leader of this module. Those of other
// programs have none and are polled.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	return b.inner.Listen(ctx, seen)
}

// Ask writes requests, which members of this module know about.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	return b.inner.Request(ctx, requests)
}

// Announce writes this process's member record.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.serve(ctx, m.Candidate); err != nil {
		return err
	}
	return b.inner.Announce(ctx, m)
}

// Members returns the members of this module. Others have no record.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	return b.inner.Members(ctx, from, limit)
}
