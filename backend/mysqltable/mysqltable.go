package mysqltable

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/internal/client"
)

// Name is how this backend is registered.
const Name = "mysqltable"

// Options says which table to share, and how the other programs use it. All members of this
// module must have the same options.
type Options struct {
	// DSN is in the form of github.com/go-sql-driver/mysql:
	// user:password@tcp(host:3306)/schema?tls=true. It is never shown. Config has the
	// same in separate fields; it is copied. Set exactly one of them.
	DSN    string
	Config *driver.Config

	// DSNFile is that of [mysql.Options].
	DSNFile string

	// Schema and Table name the other programs' table. Default: the schema that the DSN
	// names, and "leader_election". One of both must name a schema.
	Schema, Table string

	// Layout is the table's shape. There is no default.
	Layout Layout

	// Threshold is the time without a renewal after which the other programs take over;
	// the least one, if they differ. Whole seconds, at least 3. Default: 5 s with
	// LastSeenActive, 30 s with UpdateTime, none with LastActiveTime.
	Threshold time.Duration

	// Patience is the greatest threshold of the other programs, if they differ: for so
	// long a row of theirs is observed. Default: Threshold.
	Patience time.Duration

	// Period is the longest time between two runs of another program's statement. For so
	// long that program may go on leading after an operator has named another leader or
	// deleted the row. Default: 1 s with LastSeenActive, 10 s with UpdateTime, else a
	// third of Threshold.
	Period time.Duration

	// Zone is the time zone of the other programs' sessions, such as Europe/Berlin, if it
	// has daylight saving time: no member of this module leads across the moment at which
	// its clocks spring forward. Default: UTC.
	Zone string

	// Key returns an election's key in the table, a different one for each name. Nil: the
	// key is the name.
	Key func(election string) string

	// Prefix names this module's own table; see [CreateTables]. Default:
	// "election_shared". A backend/mysql to which these elections move must have another.
	Prefix string

	// MaxTTL, Poll and KeepSchema are those of [mysql.Options].
	MaxTTL     time.Duration
	Poll       bool
	KeepSchema bool
}

// A Backend shares elections with other programs. It implements [backend.Backend].
type Backend struct {
	*beside.Backend
	inner *mysql.Backend // keeps the lease between members of this module
	table *table
}

// A table is the lock beside the lease: the other programs' table. It implements [beside.Lock].
type table struct {
	pools    client.Renewed[*sql.DB] // for the other programs' table
	options  Options
	shape    shape
	zone     *time.Location
	location string
	password client.Secret // removed from errors

	checked atomic.Bool // the table has the right layout
	locked  atomic.Bool // another session seems to have locked a row
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ beside.Lock     = (*table)(nil)
)

// Format prints only the name of the type: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysqltable.Options") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			DSN       string            `yaml:"dsn" json:"dsn"`
			DSNFile   string            `yaml:"-" json:"-"`
			Schema    string            `yaml:"schema" json:"schema"`
			Table     string            `yaml:"table" json:"table"`
			Layout    string            `yaml:"layout" json:"layout"`
			Threshold time.Duration     `yaml:"threshold" json:"threshold"`
			Patience  time.Duration     `yaml:"patience" json:"patience"`
			Period    time.Duration     `yaml:"period" json:"period"`
			Zone      string            `yaml:"zone" json:"zone"`
			Keys      map[string]string `yaml:"keys" json:"keys"`
			Prefix    string            `yaml:"prefix" json:"prefix"`
			MaxTTL    time.Duration     `yaml:"max_ttl" json:"max_ttl"`
			Poll      bool              `yaml:"poll" json:"poll"`
			Create    bool              `yaml:"create_tables" json:"create_tables"`
		}
		c.Create = true
		if err := decode(&c); err != nil {
			return nil, err
		}
		o := Options{DSN: c.DSN, DSNFile: c.DSNFile, Schema: c.Schema, Table: c.Table, Layout: Layout(c.Layout), Threshold: c.Threshold,
			Patience: c.Patience, Period: c.Period, Zone: c.Zone, Prefix: c.Prefix, MaxTTL: c.MaxTTL, Poll: c.Poll, KeepSchema: !c.Create}
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
					return "" // the key of another election: is refused
				}
				return election
			}
		}
		return Open(o)
	})
}

const defaultPrefix = "election_shared"

// CreateTables creates this module's own table, prefix_item, if it does not exist, as
// [mysql.CreateTables] does. It does not touch the other programs' table.
func CreateTables(ctx context.Context, db *sql.DB, schema, prefix string) error {
	return mysql.CreateTables(ctx, db, schema, cmp.Or(prefix, defaultPrefix))
}

// CreateTables is like the function of this name, for this Backend's table and with its
// account, which needs the right to CREATE besides those of a member.
func (b *Backend) CreateTables(ctx context.Context) error {
	return b.inner.CreateTables(ctx)
}

// Open checks o and returns a Backend. It does not contact the server, which may be down:
// the first call does.
func Open(o Options) (*Backend, error) {
	t, err := newTable(o)
	if err != nil {
		return nil, err
	}
	o = t.options
	return open(t, mysql.Options{
		DSN: o.DSN, DSNFile: o.DSNFile, Config: o.Config, Schema: o.Schema, Prefix: o.Prefix,
		MaxTTL: o.MaxTTL, Poll: o.Poll, KeepSchema: o.KeepSchema,
	}, nil)
}

// open opens the Backend that keeps the leases, and the pool for the rows. wrap may be nil.
func open(t *table, o mysql.Options, wrap func(sqldriver.Connector) sqldriver.Connector) (*Backend, error) {
	inner, err := mysql.Open(o)
	if err != nil {
		return nil, fmt.Errorf("mysqltable: %w", err)
	}
	if err = t.connect(wrap); err != nil {
		inner.Close()
		return nil, fmt.Errorf("mysqltable: %w", err)
	}
	return &Backend{beside.New(inner, t), inner, t}, nil
}

// Location implements [backend.Located]: where the other programs' table is.
func (b *Backend) Location() string { return b.table.location }

var identifier = regexp.MustCompile(`^[A-Za-z0-9_$]{1,64}$`)

// newTable checks options and fills in defaults.
func newTable(o Options) (*table, error) {
	t := &table{options: o}
	if err := t.fillDefaults(); err != nil {
		return nil, fmt.Errorf("mysqltable: %w: %w", backend.ErrInvalid, err)
	}
	return t, nil
}

func (t *table) fillDefaults() (err error) {
	o := &t.options
	s, ok := shapes[o.Layout]
	if !ok {
		return fmt.Errorf("layout is %.40q; it must be last_active_time, last_seen_active or update_time: the column of the table that has the time", o.Layout)
	}
	t.shape = s
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
	if t.zone, err = time.LoadLocation(o.Zone); err != nil || o.Zone == "Local" {
		return fmt.Errorf("zone is %.60q; it must be a name such as Europe/Berlin, and this system must know it", o.Zone)
	}
	return nil
}

// rowLifetime is the least time for which a row of this module is safe from the other
// programs.
func (t *table) rowLifetime() time.Duration { return t.withGranularity(t.options.Threshold) }

// observeFor is how long a row of another program must be observed unchanged.
func (t *table) observeFor() time.Duration { return t.withGranularity(t.options.Patience) }

func (t *table) withGranularity(threshold time.Duration) time.Duration {
	if t.shape.strict {
		threshold += time.Second
	}
	return threshold
}
