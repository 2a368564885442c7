package curator

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/single"
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

	// Root is an absolute path under which this module keeps its records, session records
	// and members. It is created if necessary. Default: /election-curator. All members of an
	// election must have the same Root. In place of a chroot, set Root and a prefix of
	// Path.
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

	// Last, for layout Node, is the path of a persistent node to which the same data is
	// written after each grant, as FireflySoft.LeaderElection does; {election} as in Path.
	// Default: none.
	Last string

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

	// Tick is the servers' tickTime, or more. The clock margin depends on it: do not set
	// less than the servers have. Default: 2 s, as on the servers.
	Tick time.Duration

	// MaxSession is the longest session that the servers allow (maxSessionTimeout), 6 ticks
	// to an hour. Default: 20 ticks, as on the servers.
	MaxSession time.Duration
}

// A Backend keeps leases in ZooKeeper. It implements [backend.Backend].
type Backend struct {
	options Options
	layout  layout
	access  ensemble.Access
	owner   single.Owner

	mu         sync.Mutex
	session    *session
	locks      map[string]*ownLock // by election
	member     *backend.Member     // as last announced
	grantCount int                 // grants so far, which numbers them
	killed     bool                // by a test: behave like a process that died

	expectedSession time.Duration // session length that the next bids will need
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
)

// Format prints the type's name and nothing that may be secret, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "curator.Options") }

// Format prints the type's name and nothing that may be secret, whatever the verb.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "curator.Backend") }

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
	o.Tick = cmp.Or(o.Tick, 2*time.Second)
	o.MaxSession = cmp.Or(o.MaxSession, 20*o.Tick)
	o.Root = cmp.Or(o.Root, "/election-curator")
	o.Data = cmp.Or(o.Data, "id")
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	l, err := newLayout(o)
	if err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	b := &Backend{options: o, layout: l, locks: map[string]*ownLock{}}
	b.access = ensemble.Access{Servers: o.Servers, User: o.User, Password: o.Password, InsecureAuth: o.InsecureAuth, ACL: o.ACL, TLS: o.TLS, PasswordFile: o.PasswordFile, CAFile: o.CAFile}
	if err := b.access.Check(); err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	return b, nil
}

// check reports what is wrong with options that have their defaults.
func (o *Options) check() error {
	switch {
	case o.Tick < time.Millisecond || o.Tick > time.Minute:
		return fmt.Errorf("tick is %v; it must lie between 1ms and 1m", o.Tick)
	case o.MaxSession < 6*o.Tick:
		return fmt.Errorf("the longest session is %v; it must be at least six ticks of %v", o.MaxSession, o.Tick)
	case o.MaxSession > ensemble.MaxLength:
		return fmt.Errorf("the longest session is %v; it must be %v at most", o.MaxSession, ensemble.MaxLength)
	case o.Data != "id" && o.Data != "address":
		return fmt.Errorf(`data is %.40q; it must be "id" or "address"`, o.Data)
	}
	return nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string { return clean.Location(b.options.Root, b.access.Servers...) }

// Guarantees says what ZooKeeper can promise. For the figures see docs/design/curator.md,
// "Times".
func (b *Backend) Guarantees() backend.Guarantees {
	o := b.options
	g := backend.Guarantees{
		Name:   Name,
		MinTTL: 3 * o.Tick,
		// A session lasts TTL + 2 renewal intervals, which are usually a third of a TTL
		// each.
		MaxTTL: o.MaxSession * 3 / 5, MaxSession: o.MaxSession,
		ClockMargin: o.Tick,
		Expiry:      backend.ByChallengers,
		Push:        true, Poll: true, // everything but renewals
		Exclusive: true, DurableTerms: true,
	}
	if b.layout.kind == Node {
		g.Expiry, g.Poll = backend.ByStore, false
		// A session is two renewal intervals longer than the TTL, and the servers look for
		// expired sessions once a tick.
		g.Takeover = o.MaxSession*2/5 + 2*o.Tick
	}
	return g
}

// Close ends the session and so deletes its ephemeral nodes. If there is something to
// release, Close leaves the session to expire instead: Close does not release leases.
func (b *Backend) Close() error {
	b.owner.Close() // first: openers of a session check it after b.mu
	b.mu.Lock()
	s, leave := b.session, b.killed
	for _, own := range b.locks {
		leave = leave || !own.empty()
	}
	b.session = nil
	b.mu.Unlock()
	if s != nil {
		s.Close(!leave)
	}
	return nil
}

// admit starts a call for the candidate with this nonce, or for no candidate ("").
func (b *Backend) admit(nonce backend.Nonce) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("curator: %w", err)
	}
	return nil
}
