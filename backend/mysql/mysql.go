package mysql

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/single"
)

// Name is how this backend is registered.
const Name = "mysql"

// Options names the server and the tables. Set exactly one of DSN, Config and Connector.
type Options struct {
	// DSN is in the form of github.com/go-sql-driver/mysql:
	// user:password@tcp(host:3306)/schema?tls=true. It is never shown.
	DSN string

	// Config has the same in separate fields. It is copied.
	Config *mysql.Config

	// Connector makes the connections, for programs that authenticate or dial in their
	// own way. It should interpolate parameters (one round trip instead of three).
	// Unless NotifyConns is negative, its read timeout must be at least 15 seconds.
	// Only this Backend uses its connections.
	Connector sqldriver.Connector

	// Schema and Prefix name the tables: `schema`.`prefix_lease` and so on.
	// ASCII letters, digits and underscores, up to 48. Schema defaults to that of
	// the connection, Prefix to "election".
	Schema, Prefix string

	// NotifyConns is how many leaders a follower listens to, with one connection each.
	// Their resignations notify it at once; further leaders are only polled.
	// Default: 4. Negative: none, all are polled.
	NotifyConns int

	// KeepSchema forbids the Backend to create missing tables: see [Backend.Prepare]. With
	// an account that may not CREATE it makes no difference. Default: false.
	KeepSchema bool
}

const defaultNotifyConns = 4

// maxConns bounds the connections of one Backend, besides those that wait for other
// leaders' notification locks.
const maxConns = 3

// A Backend keeps leases in MySQL or MariaDB. It implements [backend.Backend].
type Backend struct {
	db          *sql.DB // for everything but notification locks
	notifyConns *sql.DB // for notification locks, whose statements may wait long
	tables      tables
	location    string
	keepSchema  bool
	password    string // removed from errors
	dsn         login  // what the DSN says of the account
	tableCheck  tableCheck
	servers     servers
	candidates  candidateCache
	notifier    notifier
	owner       single.Owner
	adopted     bool // it acts for a process that has ended

	statements atomic.Pointer[statements] // in the dialect of the server of the newest connection

	mutex chan struct{} // held during each call that is not a renewal
}

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Marker   = (*Backend)(nil)
	_ backend.Preparer = (*Backend)(nil)
)

// Format prints only the name of the type, for any verb: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysql.Options") }

// Format prints only the name of the type, for any verb: the fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysql.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			DSN          string `yaml:"dsn" json:"dsn"`
			Schema       string `yaml:"schema" json:"schema"`
			Prefix       string `yaml:"prefix" json:"prefix"`
			NotifyConns  int    `yaml:"notify_conns" json:"notify_conns"`
			CreateTables bool   `yaml:"create_tables" json:"create_tables"`
		}
		c.CreateTables = true
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(Options{DSN: c.DSN, Schema: c.Schema, Prefix: c.Prefix, NotifyConns: c.NotifyConns, KeepSchema: !c.CreateTables})
	})
}

// Open checks o and returns a Backend. It does not contact the server, which may
// be down: the first call does.
func Open(o Options) (*Backend, error) {
	t, err := newTables(o.Schema, o.Prefix)
	if err != nil {
		return nil, err
	}
	if o.NotifyConns == 0 {
		o.NotifyConns = defaultNotifyConns
	}
	b := &Backend{tables: t, keepSchema: o.KeepSchema, mutex: make(chan struct{}, 1)}
	b.notifier.tables = strings.ToLower(o.Schema + "." + t.plainLease)
	main, notifyConns, err := b.connectors(o)
	if err != nil {
		return nil, err
	}
	b.db = sql.OpenDB(main)
	b.db.SetMaxOpenConns(maxConns)
	b.db.SetMaxIdleConns(maxConns)
	b.db.SetConnMaxLifetime(connLifetime)
	if o.NotifyConns > 0 {
		b.notifier.maxLeaders, b.notifier.timeout = o.NotifyConns, notifyCallTimeout
		b.notifyConns = sql.OpenDB(notifyConns)
		b.notifyConns.SetMaxOpenConns(o.NotifyConns + 1) // one more for this Backend's own lock
		b.notifyConns.SetMaxIdleConns(o.NotifyConns + 1)
	}
	return b, nil
}

// Location implements [backend.Located]. It is empty with a Connector, whose server is unknown.
func (b *Backend) Location() string { return b.location }

// Guarantees returns what MySQL can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name,
		// Within a quarter of the TTL a call needs a few round trips, and as many for a
		// new connection. innodb_lock_wait_timeout is at least a second, but renewals
		// do not wait for locks.
		MinTTL: 500 * time.Millisecond,
		Expiry: backend.ByChallengers,
		Push:   b.notifyConns != nil, Poll: true,
		Exclusive: true, DurableTerms: true,
	}
}

// Close closes the connections. It does not release leases.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	b.notifier.closeConn()
	err := b.db.Close()
	if b.notifyConns != nil {
		err = errors.Join(err, b.notifyConns.Close())
	}
	return b.fail("close", err)
}

// enter begins a call for the candidate with this nonce, or for no candidate ("").
func (b *Backend) enter(nonce backend.Nonce) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	return nil
}

// tables has the names of the tables, quoted and plain.
type tables struct{ lease, term, member, plainLease, plainTerm, plainMember, schema string }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

func newTables(schema, prefix string) (tables, error) {
	if prefix == "" {
		prefix = "election"
	}
	for what, s := range map[string]string{"prefix": prefix, "schema": schema} {
		if !identifier.MatchString(s) && (what == "prefix" || s != "") {
			return tables{}, fmt.Errorf("mysql: %w: %s is %.60q; it must be 1 to 48 ASCII letters, digits and underscores and not begin with a digit", backend.ErrInvalid, what, s)
		}
	}
	dot := ""
	if schema != "" {
		dot = "`" + schema + "`."
	}
	quote := func(name string) string { return dot + "`" + prefix + "_" + name + "`" }
	return tables{
		quote("lease"), quote("term"), quote("member"),
		prefix + "_lease", prefix + "_term", prefix + "_member", schema,
	}, nil
}
