package mysqltable

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/internal/relational"
)

// Name is how this backend is registered.
const Name = "mysqltable"

// DefaultPrefix is that of this module's own table if Options name none.
const DefaultPrefix = "election_shared"

// Options says which table to share, and how the other programs use it. All members of this
// module must have the same options.
type Options struct {
	// MySQL says where the server is. The other programs' table is in the schema of this module's own one.
	// Prefix names that: default DefaultPrefix. A backend/mysql to which these elections move needs another.
	MySQL mysql.Options

	// Table is the other programs' table. Default: "leader_election".
	Table string

	// Layout is the table's shape. There is no default.
	Layout Layout

	// Threshold is the time without a renewal after which the other programs take over; the least one, if
	// they differ. Whole seconds, at least 3. Default: 5 s with LastSeenActive, 30 s with UpdateTime, none
	// with LastActiveTime.
	Threshold time.Duration

	// Zone is the time zone of the other programs' sessions, such as Europe/Berlin, if it has daylight
	// saving time: no member leads across the moment at which clocks spring forward. Default: UTC.
	Zone string
}

// A Backend shares elections with other programs. It implements [backend.Backend].
type Backend struct {
	*beside.Backend
	inner *mysql.Backend // keeps the lease between members of this module
}

// Format prints only the name of the type: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysqltable.Options") }

func init() {
	type section struct {
		mysql.Options `yaml:",inline"`
		Table         string        `yaml:"table" json:"table"`
		Layout        Layout        `yaml:"layout" json:"layout"`
		Threshold     time.Duration `yaml:"threshold" json:"threshold"`
		Zone          string        `yaml:"zone" json:"zone"`
		Create        bool          `yaml:"create_tables" json:"create_tables"`
	}
	backend.Register(Name, section{Create: true}, func(c section) (*Backend, error) {
		c.KeepSchema = !c.Create
		return Open(Options{c.Options, c.Table, c.Layout, c.Threshold, c.Zone})
	})
}

// Open checks o and returns a Backend. The server may be down: the first call connects to it.
func Open(o Options) (*Backend, error) {
	t, err := newTable(o)
	if err != nil {
		return nil, fmt.Errorf("mysqltable: %w: %w", backend.ErrInvalid, err)
	}
	o.MySQL.Prefix = cmp.Or(o.MySQL.Prefix, DefaultPrefix)
	if t.server, err = mysql.Open(o.MySQL); err != nil {
		return nil, fmt.Errorf("mysqltable: %w", err)
	}
	// A row's time is truncated to whole seconds, which costs up to one. The write and the read take time.
	return &Backend{beside.New(Name, t.server, t, t.lifetime-2*time.Second), t.server}, nil
}

// CreateTables creates this module's own table.
func (b *Backend) CreateTables(ctx context.Context) error { return b.inner.CreateTables(ctx) }

// Prepare implements [backend.Preparer] for this module's own table.
func (b *Backend) Prepare(ctx context.Context) error { return b.inner.Prepare(ctx) }

// newTable checks options and fills in defaults. The table has no server yet.
func newTable(o Options) (*table, error) {
	s, ok := shapes[o.Layout]
	if !ok {
		return nil, fmt.Errorf("layout is %.40q; it must be last_active_time, last_seen_active or "+
			"update_time: the column of the table that has the time", o.Layout)
	}
	o.Table, o.Threshold = cmp.Or(o.Table, "leader_election"), cmp.Or(o.Threshold, s.threshold)
	zone, err := time.LoadLocation(o.Zone)

	switch {
	case o.Threshold < 3*time.Second || o.Threshold > time.Hour || o.Threshold%time.Second != 0:
		return nil, fmt.Errorf("threshold is %v; it must be 3 s to 1 h, in whole seconds: "+
			"the time after which the other programs take over", o.Threshold)
	case err != nil:
		return nil, fmt.Errorf("zone is %.60q; it must be a name, such as Europe/Berlin, "+
			"that this system knows", o.Zone)
	}

	t := &table{options: o, shape: s, zone: zone, lifetime: o.Threshold}
	if s.strict {
		t.lifetime += time.Second
	}
	expired := fmt.Sprintf(s.expired, int64(o.Threshold/time.Second))
	t.names = strings.NewReplacer("{table}", relational.Quoted(o.Table, "`"),
		"{key}", s.key, "{holder}", s.holder, "{at}", s.time,
		"{expired}", "COALESCE("+expired+" OR "+s.time+" = '"+sealed+"', FALSE)")
	return t, nil
}
