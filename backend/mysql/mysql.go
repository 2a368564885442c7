package mysql

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/relational"
)

// Name is how this backend is registered.
const Name = "mysql"

// Options names the server and the table. Set exactly one of DSN, Config and DB.
type Options struct {
	// DSN is in the form of github.com/go-sql-driver/mysql:
	// user:password@tcp(host:3306)/schema?tls=true. It is never shown.
	DSN string `yaml:"dsn" json:"dsn"`

	// DSNFile is a file with the DSN, where user and password may be replaced: each connection reads it
	// again. DSN must be set, too. In a configuration it is dsn_file. Default: none.
	DSNFile string `yaml:"-" json:"-"`

	// Config has the same in separate fields. It is copied.
	Config *mysql.Config `yaml:"-" json:"-"`

	// DB is the program's own pool, and stays open: one of its connections is kept, a second one while the
	// program does not wait for it, up to two more for some seconds while the server is slow. It must open
	// two besides the program's own, with multiStatements=true and a readTimeout of none or at least 5 s.
	DB *sql.DB `yaml:"-" json:"-"`

	// Schema and Prefix name the table: `schema`.`prefix_item`. ASCII letters, digits and underscores, up to
	// 48. Schema defaults to that of the DSN or Config, Prefix to election. With a DB it is that of the
	// first connection on which nobody has said USE: name it if the program says USE on each.
	Schema string `yaml:"schema" json:"schema"`
	Prefix string `yaml:"prefix" json:"prefix"`

	// MaxTTL is the greatest TTL, and for how long each lease is observed after a failover. The table keeps
	// it, and processes with another value are denied. 500 ms to 5 min. Default: 15 s.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// Poll forbids to wait for notifications: a handover then takes until the next poll. Default: false.
	Poll bool `yaml:"poll" json:"poll"`

	// KeepSchema forbids to create a missing table; in a configuration: create_tables: false. Default: false.
	KeepSchema bool `yaml:"-" json:"-"`
}

// A Backend keeps leases in MySQL or MariaDB. It implements [backend.Backend].
type Backend struct {
	relational.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysql.Options") }

func init() {
	type section struct {
		Options      `yaml:",inline"`
		CreateTables bool `yaml:"create_tables" json:"create_tables"`
	}
	backend.Register(Name, section{CreateTables: true}, func(c section) (*Backend, error) {
		c.KeepSchema = !c.CreateTables
		return Open(c.Options)
	})
}

// Open checks o and returns a Backend, or [backend.ErrInvalid]. The first call connects to the server.
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w: %w", backend.ErrInvalid, err)
	}
	var leases lease.Driver = d
	if d.notifier.poll {
		leases = struct{ lease.Driver }{d} // hides Listen
	}
	return &Backend{relational.NewBackend(leases, &d.Driver), d}, nil
}

func unconnected(schema, prefix string) (*driver, error) {
	t, err := relational.NewTable("`", "A-Za-z", schema, prefix)
	d := &driver{Driver: relational.Driver{Name: Name, Table: t, MinTTL: minTTL}}
	d.Dialect = d // the embedded Driver calls back for what is MySQL's own
	return d, err
}

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	d, err := unconnected(o.Schema, o.Prefix)
	d.KeepSchema, d.notifier.poll, d.notifier.own = o.KeepSchema, o.Poll, string(backend.NewNonce()[:12])
	if err == nil {
		err = d.Begin(o.MaxTTL, "DSN, Config and DB", o.DSN != "", o.Config != nil, o.DB != nil)
	}
	if err == nil {
		err = d.openPool(o)
	}
	return d, err
}
