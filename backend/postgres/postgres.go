package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// Name is how this backend is registered.
const Name = "postgres"

// DefaultPrefix and DefaultMaxTTL apply if Options name none.
const (
	DefaultPrefix = relational.DefaultPrefix
	DefaultMaxTTL = relational.DefaultMaxTTL
)

// Options names the server and the table. Exactly one of DSN, Pool and DB is set.
type Options struct {
	// DSN is in the form of libpq: postgres://user:password@host:5432/database?sslmode=verify-full,
	// or host=… user=…. What it lacks comes from PGHOST, PGPASSWORD and so on, as for psql. Of
	// several hosts the primary is used. It is never shown.
	DSN string `yaml:"dsn" json:"dsn"`

	// DSNFile is a file with the DSN, where the password may be replaced: it is read again when the server refuses a
	// login, as are all files that the DSN names, and once a minute. DSN must be set, too. In a configuration it is
	// dsn_file. Default: none.
	DSNFile string `yaml:"-" json:"-"`

	// Pool and DB are the program's own, and stay open. DB must have been opened by the driver of
	// package pgx/v5/stdlib. Besides their connections one more is opened, which listens. A call that is
	// not answered in time keeps one of theirs for up to two seconds more.
	Pool *pgxpool.Pool `yaml:"-" json:"-"`
	DB   *sql.DB       `yaml:"-" json:"-"`

	// Schema and Prefix name the table: schema.prefix_item. A prefix has small ASCII letters, digits and underscores, up
	// to 48, and defaults to DefaultPrefix. Schema, up to 64 characters, defaults to that to which the search_path leads
	// with which a connection begins. That is settled by the first call, and only if the search_path leads nobody to a
	// second table. A missing table is not made behind a pooler, or beside that of another schema, unless Schema is named.
	Schema string `yaml:"schema" json:"schema"`
	Prefix string `yaml:"prefix" json:"prefix"`

	// MaxTTL is the greatest TTL, and for how long each lease is observed after a failover, which may
	// lose what was acknowledged. The table keeps it, and processes with another value are denied.
	// 1 s to 5 min. Default: DefaultMaxTTL.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// KeepSchema forbids to create a missing table: see [Backend.Prepare]. In a configuration it is
	// create_tables: false. Default: false.
	KeepSchema bool `yaml:"-" json:"-"`
}

// A Backend keeps leases in PostgreSQL. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "postgres.Options") }

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "postgres.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			Options      `yaml:",inline"`
			CreateTables bool `yaml:"create_tables" json:"create_tables"`
		}
		c.CreateTables = true
		if err := decode(&c); err != nil {
			return nil, err
		}
		c.KeepSchema = !c.CreateTables
		return Open(c.Options)
	})
}

// Open checks o and returns a Backend. The server may be down: the first call connects to it.
// Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", backend.ErrInvalid, err)
	}
	return &Backend{lease.New(d), d}, nil
}

// Location implements [backend.Located]. With Options.DB it is empty, since the server is unknown.
func (b *Backend) Location() string { return b.driver.location }

func newTable(schema, prefix string) (relational.Table, error) {
	return relational.NewTable(`"`, "a-z", schema, prefix)
}

// channel is that of the notifications.
func channel(t relational.Table) string { return t.Prefix + "_item" }

// unconnected returns a driver without connections.
func unconnected(t relational.Table) *driver {
	d := &driver{Driver: relational.Driver{Name: Name, Table: t, MinTTL: minTTL}, listening: make(chan struct{}, 1)}
	d.Dialect = d
	return d
}

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	t, err := newTable(o.Schema, o.Prefix)
	if err != nil {
		return nil, err
	}
	d := unconnected(t)
	d.MaxTTL, d.KeepSchema, d.db = o.MaxTTL, o.KeepSchema, o.DB
	if err := d.CheckOptions("DSN, Pool and DB", o.DSN != "", o.Pool != nil, o.DB != nil); err != nil {
		return nil, err
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	switch {
	case o.DSN != "":
		err = d.connect(o.DSN, o.DSNFile)
	case o.Pool != nil: // the program replaces its connections
		d.pools.Age = math.MaxInt64
		d.pools.Set(o.Pool)
	default:
		if _, ok := o.DB.Driver().(*stdlib.Driver); !ok {
			err = fmt.Errorf("the DB has the driver %T; it must be that of github.com/jackc/pgx/v5/stdlib", o.DB.Driver())
		}
	}
	if err == nil && d.db == nil {
		d.locate(&d.pools.Get().Config().ConnConfig.Config)
	}
	return d, err
}

// connect makes the pool, which dials when it is used.
func (d *driver) connect(dsn, file string) error {
	again := client.Secret{}
	again.Set(dsn)
	first, err := newPool(dsn, dsn)
	if err != nil {
		return err
	}
	d.ownPool = true
	d.pools.Age, d.pools.Close = time.Minute, (*pgxpool.Pool).Close
	d.pools.Open = func(ctx context.Context) (*pgxpool.Pool, error) {
		again.ReadAgain(file)
		next, err := newPool(dsn, again.Get())
		if err != nil {
			return nil, err
		}
		if err = next.Ping(ctx); err != nil {
			next.Close()
			return nil, err
		}
		d.Password.Set(next.Config().ConnConfig.Password)
		return next, nil
	}
	d.pools.Set(first)
	return nil
}

// newPool returns a pool for a DSN, with user and password of another one.
func newPool(dsn, login string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil { // its text may have the password
		return nil, fmt.Errorf("the dsn cannot be used; it is not shown, since it may hold a password. The form is postgres://user:password@host:5432/database?sslmode=verify-full; a password with special characters is percent-encoded: %%25 stands for %%")
	}
	if l, err := pgxpool.ParseConfig(login); err == nil { // or somebody is writing the file
		c.ConnConfig.User, c.ConnConfig.Password = l.ConnConfig.User, l.ConnConfig.Password
	}
	c.MaxConns, c.MinConns = maxConns, 0
	c.MaxConnLifetime, c.MaxConnIdleTime = 0, time.Hour // no limit: see d.pools
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}}
	c.ConnConfig.DialFunc = dialer.DialContext
	return pgxpool.NewWithConfig(context.Background(), c)
}

// locate notes what the configuration of connections says of the server and of the account.
func (d *driver) locate(c *pgconn.Config) {
	hosts := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	hosts = slices.Compact(hosts) // one is there with TLS and without
	within := path.Join(c.Database, d.Table.Schema, d.Table.Prefix)
	d.location, d.user = clean.Location(within, hosts...), c.User
	d.Password.Set(c.Password)
}
