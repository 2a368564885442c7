package curator

import (
	"cmp"
	"fmt"
	"time"

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

// Options names the ensemble and the paths. Only ZooKeeper.Servers is required.
type Options struct {
	// ZooKeeper says where the servers are, and what this module keeps there besides the lock nodes. The default of
	// Root is /election-curator; all members of an election must have the same one.
	ZooKeeper zookeeper.Options

	// Layout is the kind of lock. Default: Latch.
	Layout Layout

	// Path is the path of an election's lock: an absolute path in which {election} stands
	// for the name, with unsafe bytes escaped as in a URL. Default: Root +
	// "/latch/{election}" (or /selector, /node). This module puts nothing there but the
	// lock. Nobody else may: a stray child of a queue is a program that leads for ever.
	Path string

	// Paths are exact lock paths of single elections, by name, in place of Path.
	Paths map[string]string

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
	lock *lock
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the type's name and nothing that may be secret, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "curator.Options") }

func init() {
	type section struct {
		ensemble.Config `yaml:",inline"`
		Layout          Layout            `yaml:"layout" json:"layout"`
		Path            string            `yaml:"path" json:"path"`
		Paths           map[string]string `yaml:"paths" json:"paths"`
		Tick            time.Duration     `yaml:"tick" json:"tick"`
		Session         time.Duration     `yaml:"session" json:"session"`
	}
	backend.Register(Name, section{}, func(c section) (*Backend, error) {
		z, err := c.Config.Options()
		if err != nil {
			return nil, fmt.Errorf("curator: %w", err)
		}
		return Open(Options{
			ZooKeeper: zookeeper.Options(z), Layout: c.Layout, Path: c.Path, Paths: c.Paths,
			Tick: c.Tick, Session: c.Session,
		})
	})
}

// Open checks o and returns a Backend. It does not contact the servers, which may be down;
// the first call does. Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	k, err := newLock(o)
	if err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	o.ZooKeeper.Root = k.layout.leaseRoot()
	inner, err := zookeeper.Open(o.ZooKeeper)
	if err != nil {
		return nil, fmt.Errorf("curator: %w", err)
	}
	return &Backend{beside.New(inner, k), k}, nil
}

// newLock checks options, fills in defaults, and returns the lock alone.
func newLock(o Options) (*lock, error) {
	o.Tick = cmp.Or(o.Tick, 2*time.Second)
	o.Session = cmp.Or(o.Session, 10*o.Tick)
	o.ZooKeeper.Root = cmp.Or(o.ZooKeeper.Root, "/election-curator")
	switch {
	case o.Tick < time.Millisecond || o.Tick > time.Minute:
		return nil, fmt.Errorf("tick is %v; it must lie between 1ms and 1m", o.Tick)
	case o.Session < 6*o.Tick:
		return nil, fmt.Errorf("session is %v; it must be at least six ticks of %v", o.Session, o.Tick)
	case o.Session > ensemble.MaxLength:
		return nil, fmt.Errorf("session is %v; it must be %v at most", o.Session, ensemble.MaxLength)
	}
	l, err := newLayout(o)
	if err != nil {
		return nil, err
	}
	access, err := ensemble.NewAccess(ensemble.Options(o.ZooKeeper))
	if err != nil {
		return nil, err
	}
	session := ensemble.NewSession(access, o.Session)
	session.Quiet = true
	return &lock{
		options: o, layout: l, access: access, session: session,
		life:   &lifetime{session: session, tick: o.Tick},
		claims: map[string]claim{}, views: map[string]*view{},
	}, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(b.lock.layout.root, b.lock.access.Servers...)
}
