package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// Name is how this backend is registered.
const Name = "postgres"

// Options names the server and the table. Exactly one of DSN, Pool and DB is set.
type Options struct {
	// DSN is in the form of libpq: postgres://user:password@host:5432/database?sslmode=verify-full, or host=…
	// What it lacks comes from PGHOST and so on. Of several hosts the primary is used. It is never shown.
	DSN string `yaml:"dsn" json:"dsn"`

	// DSNFile is a file with the DSN, where user and password may be replaced: each connection reads it
	// again. DSN must be set, too. In a configuration it is dsn_file. Default: none.
	DSNFile string `yaml:"-" json:"-"`

	// Pool and DB, by the driver of pgx/v5/stdlib, are the program's own, and stay open. One connection is
	// taken for long, and replaced once a minute; one more for some seconds while the server is slow. Pool
	// opens others in their place. DB must be able to open two besides those that the program needs at once.
	Pool *pgxpool.Pool `yaml:"-" json:"-"`
	DB   *sql.DB       `yaml:"-" json:"-"`

	// Schema and Prefix name the table: schema.prefix_item. A prefix has small ASCII letters, digits and
	// underscores, up to 48. Default: election. Schema defaults to that to which the search_path leads
	// with which a connection begins: the first call settles it, and only if nobody is led to a second table.
	// A missing table is not made behind a pooler, or beside that of another schema, unless Schema is named.
	Schema string `yaml:"schema" json:"schema"`
	Prefix string `yaml:"prefix" json:"prefix"`

	// MaxTTL is the greatest TTL, and for how long each lease is observed after a failover. The table keeps
	// it, and processes with another value are denied. 1 s to 5 min. Default: 15 s.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// KeepSchema forbids to create a missing table; in a configuration: create_tables: false. Default: false.
	KeepSchema bool `yaml:"-" json:"-"`
}

// A Backend keeps leases in PostgreSQL. It implements [backend.Backend].
type Backend struct {
	relational.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "postgres.Options") }

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
		return nil, fmt.Errorf("postgres: %w: %w", backend.ErrInvalid, err)
	}
	return &Backend{relational.NewBackend(d, &d.Driver), d}, nil
}

func unconnected(schema, prefix string) (*driver, error) {
	t, err := relational.NewTable(`"`, "a-z", schema, prefix)
	d := &driver{Driver: relational.Driver{Name: Name, Table: t, MinTTL: minTTL}}
	d.Dialect, d.listening = d, make(chan struct{}, 1)
	return d, err
}

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	d, err := unconnected(o.Schema, o.Prefix)
	d.KeepSchema = o.KeepSchema
	d.conns.Age, d.conns.Most, d.conns.Close = time.Minute, maxConns, (*conn).close
	if err == nil {
		err = d.Begin(o.MaxTTL, "DSN, Pool and DB", o.DSN != "", o.Pool != nil, o.DB != nil)
	}
	if err == nil {
		err = d.source(o)
	}
	return d, err
}

// source sets how connections are opened. Those of the program's pool are not put back: they listen.
func (d *driver) source(o Options) error {
	switch {
	case o.DSN != "":
		d.inUse, d.reset = func() (used, most int) { return 0, 0 }, func() {}
		return d.connect(o.DSN, o.DSNFile)
	case o.Pool != nil:
		d.inUse = func() (used, most int) {
			s := o.Pool.Stat()
			return int(s.AcquiredConns()), int(s.MaxConns())
		}
		d.reset = o.Pool.Reset
		d.locate(&o.Pool.Config().ConnConfig.Config)
		d.conns.Open = func(ctx context.Context) (*conn, error) {
			c, err := o.Pool.Acquire(ctx)
			if err != nil {
				return nil, plainly(err)
			}
			return &conn{Conn: c.Hijack()}, nil // Close of the pool does not wait for it
		}
	default:
		of := o.DB.Driver()
		if _, ok := of.(*stdlib.Driver); !ok {
			return fmt.Errorf("the DB has a %T; it must be that of github.com/jackc/pgx/v5/stdlib", of)
		}
		if most := o.DB.Stats().MaxOpenConnections; most > 0 && most < minDB {
			return fmt.Errorf("the DB may open %d connections; it needs %d, since one is kept", most, minDB)
		}
		d.inUse = func() (used, most int) {
			s := o.DB.Stats()
			return s.InUse, s.MaxOpenConnections
		}
		d.reset = func() { client.CloseIdle(d.Context, o.DB) }
		d.conns.Open = func(ctx context.Context) (*conn, error) {
			c, err := o.DB.Conn(ctx)
			if err != nil {
				return nil, plainly(err)
			}
			made := &conn{release: func() { client.DropConn(c) }}
			return made, c.Raw(func(own any) error {
				made.Conn = own.(*stdlib.Conn).Conn() // nobody else has it until it is released
				return nil
			})
		}
	}
	return nil
}

// A conn is a connection to the server.
type conn struct {
	*pgx.Conn
	release       func() // gives it back to the program's DB; nil: it is of none
	hears, pooled bool   // it listens; it leads to a pooler
}

func (c *conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), minTTL)
	defer cancel()
	c.Conn.Close(ctx)
	if c.release != nil {
		c.release()
	}
}

// connect makes a DSN the source of connections. Each of them reads again what it names.
func (d *driver) connect(dsn, file string) error {
	again := client.Secret{Lines: true}
	again.Set(dsn)
	alive := net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}
	dialer := &client.Dialer{Dialer: net.Dialer{KeepAliveConfig: alive}}
	first, err := parse(dsn, dsn, dialer)
	if err != nil {
		return err
	}
	d.locate(&first.Config)
	d.conns.Open = func(ctx context.Context) (*conn, error) {
		again.ReadAgain(file)
		config, err := parse(dsn, again.Get(), dialer)
		if errors.Is(err, errDSN) { // it could be used before
			err = errFile
		}
		if err != nil {
			return nil, err
		}
		d.Password.Set(config.Password)
		c, err := pgx.ConnectConfig(ctx, config)
		if err = plainly(err); err != nil && config.TLSConfig != nil {
			for _, own := range config.TLSConfig.Certificates {
				err = errors.Join(err, client.Expired("sslcert", own))
			}
		}
		return &conn{Conn: c}, err
	}
	return nil
}

// loginLimit is how long a login may take, or those at all hosts together: one that is broken off goes on.
const (
	loginLimit       = 15 * time.Second
	loginLimitOfMany = 5 * time.Second // another host may be the primary
)

// Errors of a DSN. Their text has no part of it.
var (
	errDSN = errors.New("the dsn cannot be used; it is not shown, since it may hold a password. " +
		"The form is postgres://user:password@host:5432/database?sslmode=verify-full; a password with " +
		"special characters is percent-encoded: %25 stands for %, %40 for @. PGSERVICE, PGSSLMODE and " +
		"others of the environment complete it")
	errFile = errors.New("a file that the dsn names (sslrootcert, sslcert, sslkey, servicefile) cannot be " +
		"used: somebody may be writing it")
)

// parse reads a DSN, with user and password of another one.
func parse(dsn, login string, dialer *client.Dialer) (*pgx.ConnConfig, error) {
	of, err := pgxpool.ParseConfig(strings.TrimSpace(dsn)) // after a blank line a URL is a parameter
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("the dsn, or PGSERVICE or the like, names a file: %w", clean.FileError(file))
	}
	// The text of the error may have the password, and so may a host with an @ that is no path of a socket.
	if err != nil || strings.Contains(of.ConnConfig.Host, "@") && of.ConnConfig.Host[0] != '/' {
		return nil, errDSN
	}
	c := of.ConnConfig
	if l, err := pgxpool.ParseConfig(strings.TrimSpace(login)); err == nil { // or somebody is writing it
		c.User, c.Password = l.ConnConfig.User, l.ConnConfig.Password
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = client.Name()
	}
	limit := loginLimit
	if n := len(hosts(&c.Config)); n > 1 {
		limit = min(loginLimitOfMany, loginLimit/time.Duration(n))
	}
	c.ConnectTimeout = min(cmp.Or(c.ConnectTimeout, limit), limit)
	c.ValidateConnect = primary // whatever target_session_attrs says: a DSN may be for those who only read
	c.DialFunc, c.LookupFunc = dialer.DialContext, dialer.LookupHost
	return c, nil
}

// primary accepts a server that takes writes. From version 14 on that needs no statement, which may fail.
func primary(ctx context.Context, c *pgconn.PgConn) error {
	if c.ParameterStatus("in_hot_standby") == "off" {
		return nil
	}
	return pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c)
}

// hosts returns the addresses of a configuration.
func hosts(c *pgconn.Config) []string {
	all := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks {
		all = append(all, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	return slices.Compact(all) // one is there with TLS and without
}

// locate notes what the configuration of connections says of the server and of the account.
func (d *driver) locate(c *pgconn.Config) {
	within := path.Join(c.Database, d.Table.Schema, d.Table.Prefix)
	d.Location, d.user = clean.Location(within, hosts(c)...), c.User
	d.Password.Set(c.Password)
}
