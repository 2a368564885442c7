package curator

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/internal/ensemble"
)

// Name is the name under which this backend is registered.
const Name = "curator"

// A Layout says what the lock of an election is in ZooKeeper.
type Layout string

const (
	Latch    Layout = "latch"    // Apache Curator's LeaderLatch; the default
	Selector Layout = "selector" // Apache Curator's LeaderSelector and InterProcessMutex
	Node     Layout = "node"     // one ephemeral node at a path of the user's choice
)

// Options names the ensemble and the paths. Only Servers is required.
type Options struct {
	// Servers are the members of the ensemble, each as host or host:port. The port defaults
	// to 2181. Names are resolved at each attempt to connect.
	Servers []string

	// Root is an absolute path under which this module keeps its own nodes. It is created if
	// necessary. Default: /election-curator. All members of an election must have the same
	// Root. In place of a chroot, set Root and a prefix of Path.
	Root string

	// Layout is the kind of lock. Default: Latch.
	Layout Layout

	// Path is the path of an election's lock: an absolute path in which {election} stands
	// for the name, with unsafe bytes escaped as in a URL. Default: Root +
	// "/latch/{election}" (or /selector, /node). This module puts nothing there but the
	// lock.
	Path string

	// Paths are exact lock paths of single elections, by name, in place of Path. None may
	// be within another one, or be or lie within the path that Path gives to another
	// election.
	Paths map[string]string

	// Data is the content of a lock node: "id" (the default) or "address" of the candidate,
	// in UTF-8. Members of other programs read it.
	Data string

	// User and Password authenticate with the digest scheme, which sends them in the clear.
	// Without TLS that is refused, unless all Servers are loopback addresses or
	// InsecureAuth is set. They are never shown.
	User, Password string
	InsecureAuth   bool

	// ACL is set on every node that is created. Default: all permissions for the
	// authenticated user alone, or, without a user, for everyone, which is Curator's
	// default.
	ACL []zk.ACL

	// TLS, if not nil, is used to connect to the servers' secure port. It is copied;
	// ServerName defaults to the host that is dialled.
	TLS *tls.Config

	// PasswordFile and CAFile are the files with the Password and, as PEM, with the authorities of TLS, where they may be
	// replaced: they are read again when a call is refused, and at each connection. Default: none.
	PasswordFile, CAFile string

	// Tick is the servers' tickTime, or more: do not set less than the servers have. Default:
	// 2 s, as on the servers.
	Tick time.Duration

	// Session is the length of the session that owns the lock nodes: after a crash, other
	// programs wait for so long if no member of this module is there. The greatest TTL is
	// three fifths of it. 6 ticks to an hour; servers allow 2 to 20 ticks by default.
	// Default: 10 ticks.
	Session time.Duration
}

// A Backend keeps a lease, and a lock node beside it. It implements [backend.Backend].
type Backend struct {
	*beside.Backend
	inner *zookeeper.Backend
	lock  *lock
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the type's name and nothing that may be secret, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "curator.Options") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c config
		if err := decode(&c); err != nil {
			return nil, err
		}
		o, err := c.options()
		if err != nil {
			return nil, err
		}
		return Open(o)
	})
}

// Open checks o and returns a Backend. It does not contact the servers, which may be down;
// the first call does. Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	k, err := newLock(o)
	if err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	inner, err := zookeeper.Open(zookeeper.Options{
		Servers: o.Servers, Root: k.layout.leaseRoot(), User: o.User, Password: o.Password, InsecureAuth: o.InsecureAuth,
		ACL: o.ACL, TLS: o.TLS, PasswordFile: o.PasswordFile, CAFile: o.CAFile,
	})
	if err != nil {
		return nil, fmt.Errorf("curator: %w", err)
	}
	return &Backend{beside.New(inner, k), inner, k}, nil
}

// newLock checks options, fills in defaults, and returns the lock alone.
func newLock(o Options) (*lock, error) {
	o.Tick = cmp.Or(o.Tick, 2*time.Second)
	o.Session = cmp.Or(o.Session, 10*o.Tick)
	o.Root = cmp.Or(o.Root, "/election-curator")
	o.Data = cmp.Or(o.Data, "id")
	if err := o.check(); err != nil {
		return nil, err
	}
	l, err := newLayout(o)
	if err != nil {
		return nil, err
	}
	k := &lock{options: o, layout: l, places: map[string]*place{}}
	k.access = ensemble.Access{Servers: o.Servers, User: o.User, Password: o.Password, InsecureAuth: o.InsecureAuth, ACL: o.ACL, TLS: o.TLS, PasswordFile: o.PasswordFile, CAFile: o.CAFile}
	if err := k.access.Check(); err != nil {
		return nil, err
	}
	k.session = ensemble.NewSession(&k.access, o.Session)
	k.session.Quiet = true
	k.life = newLifetime(k.session, o.Tick)
	return k, nil
}

// check reports what is wrong with options that have their defaults.
func (o *Options) check() error {
	switch {
	case o.Tick < time.Millisecond || o.Tick > time.Minute:
		return fmt.Errorf("tick is %v; it must lie between 1ms and 1m", o.Tick)
	case o.Session < 6*o.Tick:
		return fmt.Errorf("session is %v; it must be at least six ticks of %v", o.Session, o.Tick)
	case o.Session > ensemble.MaxLength:
		return fmt.Errorf("session is %v; it must be %v at most", o.Session, ensemble.MaxLength)
	case o.Data != "id" && o.Data != "address":
		return fmt.Errorf(`data is %.40q; it must be "id" or "address"`, o.Data)
	}
	return nil
}

// Inspect implements [backend.Inspector]: for the leases, and for the session that owns the lock nodes.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	list, err := b.Backend.Inspect(ctx, ttl, renew)
	if err != nil {
		return nil, err
	}
	if _, err := b.lock.session.Ready(ctx); err != nil {
		return nil, b.lock.fail("inspect", err)
	}
	if most := b.lock.most(); most > 0 {
		d := clean.Diagnosticf(true, "session", "the servers grant sessions of %v, and session is %v here: the greatest TTL is %v. Shorten the TTL, or raise the servers' maxSessionTimeout",
			b.lock.session.Connection().Length, b.lock.options.Session, most)
		d.Fatal = ttl > most
		list = append(list, d)
	}
	return list, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(b.lock.options.Root, b.lock.access.Servers...)
}
