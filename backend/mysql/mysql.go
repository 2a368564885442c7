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
)

// Name is how this backend is registered.
const Name = "mysql"

// Options says which server and which tables. Exactly one of DSN, Config and
// Connector is set.
type Options struct {
	// DSN is in the form of github.com/go-sql-driver/mysql:
	// user:password@tcp(host:3306)/schema?tls=true. It is never shown.
	DSN string

	// Config is the same, taken apart. It is copied.
	Config *mysql.Config

	// Connector makes the connections, for programs that have their own way to
	// authenticate or dial. It should interpolate parameters (one round trip
	// instead of three) and must not cut off a reading before 15 seconds if
	// notification locks are on. Its connections are used by this Backend alone.
	Connector sqldriver.Connector

	// Schema and Prefix name the tables: `schema`.`prefix_lease` and so on.
	// ASCII letters, digits and underscores, up to 48. Schema defaults to that of
	// the connection, Prefix to "election".
	Schema, Prefix string

	// NotifyConns is how many leaders a follower listens to, each with one
	// connection; it hears of a resignation at once. Further leaders are polled
	// only. Default: 4. Negative: none, all polled.
	NotifyConns int
}

const defaultNotifyConns = 4

// maxConns bounds the connections of one Backend, notification locks of others apart.
const maxConns = 3

// A Backend keeps leases in MySQL or MariaDB. It implements [backend.Backend].
type Backend struct {
	db          *sql.DB // for everything but notification locks
	notifyConns *sql.DB // for notification locks: sessions that may wait for long
	tables      tables
	location    string
	password    string // to keep out of errors
	dsn         login  // as far as it is known before the server is asked
	shape       shape
	servers     servers
	people      people
	notifier    notifier
	guard       backend.SingleOwner

	statements atomic.Pointer[statements] // in the dialect of the server of the newest connection

	turn chan struct{} // taken by a call that is not a renewal
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysql.Options") }

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mysql.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			DSN         string `yaml:"dsn" json:"dsn"`
			Schema      string `yaml:"schema" json:"schema"`
			Prefix      string `yaml:"prefix" json:"prefix"`
			NotifyConns int    `yaml:"notify_conns" json:"notify_conns"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(Options{DSN: c.DSN, Schema: c.Schema, Prefix: c.Prefix, NotifyConns: c.NotifyConns})
	})
}

// Open checks o and returns a Backend. It does not talk to the server, which may
// be down: the first call does.
func Open(o Options) (*Backend, error) {
	t, err := newTables(o.Schema, o.Prefix)
	if err != nil {
		return nil, err
	}
	if o.NotifyConns == 0 {
		o.NotifyConns = defaultNotifyConns
	}
	b := &Backend{tables: t, turn: make(chan struct{}, 1)}
	b.notifier.about = strings.ToLower(o.Schema + "." + t.plainLease)
	main, notifyConns, err := b.connectors(o)
	if err != nil {
		return nil, err
	}
	b.db = sql.OpenDB(main)
	b.db.SetMaxOpenConns(maxConns)
	b.db.SetMaxIdleConns(maxConns)
	b.db.SetConnMaxLifetime(connLifetime)
	if o.NotifyConns > 0 {
		b.notifier.most, b.notifier.patience = o.NotifyConns, notifyPatience
		b.notifyConns = sql.OpenDB(notifyConns)
		b.notifyConns.SetMaxOpenConns(o.NotifyConns + 1) // and one's own
		b.notifyConns.SetMaxIdleConns(o.NotifyConns + 1)
	}
	return b, nil
}

// Location implements [backend.Located]. It is empty with a Connector, whose server is its own matter.
func (b *Backend) Location() string { return b.location }

// Guarantees says what MySQL can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name,
		// A call needs a few round trips, and a new connection as many again,
		// within a quarter of the TTL. innodb_lock_wait_timeout is a second at
		// least, but renewals do not wait for locks (see renew.go).
		MinTTL: 500 * time.Millisecond,
		Expiry: backend.ByChallengers,
		Push:   b.notifyConns != nil, Poll: true,
		Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// Close closes the connections. It does not release leases.
func (b *Backend) Close() error {
	if !b.guard.Close() {
		return nil
	}
	b.notifier.close()
	err := b.db.Close()
	if b.notifyConns != nil {
		err = errors.Join(err, b.notifyConns.Close())
	}
	return b.fail("close", err)
}

// enter begins a call for the candidate with this nonce, or for nobody ("").
func (b *Backend) enter(nonce string) error {
	if err := b.guard.Admit(nonce); err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	return nil
}

// tables has the quoted names.
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
