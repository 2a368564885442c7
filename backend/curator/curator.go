package curator

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
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
	// ZooKeeper says where the servers are, and what this module keeps there besides the lock nodes. The
	// default of Root is /election-curator; all members of an election must have the same one.
	ZooKeeper zookeeper.Options

	// Layout is the kind of lock. Default: Latch.
	Layout Layout

	// Path is the path of an election's lock: an absolute path in which {election} stands for the name, with
	// unsafe bytes escaped as in a URL. Nobody may put anything else there: a stray child of a queue is a
	// program that leads for ever. Default: Root + "/latch/{election}" (or /selector, /node).
	Path string

	// Paths are exact lock paths of single elections, by name, in place of Path.
	Paths map[string]string

	// Tick is the servers' tickTime, or more, and never less. Default: 2 s, as on the servers.
	Tick time.Duration

	// Session is the length of the session that owns the lock nodes: after a crash, other programs wait for
	// so long if no member of this module is there. The greatest TTL is three fifths of it. At least 6 ticks;
	// servers allow 2 to 20 ticks by default. Default: 10 ticks.
	Session time.Duration
}

// A Backend keeps a lease, and a lock node beside it. It implements [backend.Backend].
type Backend struct {
	*beside.Backend
	lock *lock
}

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
		z, err := c.Complete()
		if err != nil {
			return nil, fmt.Errorf("curator: %w", err)
		}
		return Open(Options{
			ZooKeeper: zookeeper.Options(z), Layout: c.Layout, Path: c.Path, Paths: c.Paths,
			Tick: c.Tick, Session: c.Session,
		})
	})
}

// Open checks o and returns a Backend. The servers may be down. Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	k, err := newLock(o)
	if err != nil {
		return nil, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	o.ZooKeeper.Root = k.layout.root + "/lease"
	inner, err := zookeeper.Open(o.ZooKeeper)
	if err != nil {
		return nil, fmt.Errorf("curator: %w", err)
	}
	// Only the second write after a renewal proves that the ensemble's leader has heard of it, and renewals
	// come at least three times in a TTL: two thirds of a TTL are on top of it.
	return &Backend{beside.New(Name, inner, k, k.session.Length*3/5), k}, nil
}

// Renew implements [backend.Backend]. If it takes long, the lock's connection may be dead, too: it is tried.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if by, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(time.Until(by)/2, func() { b.lock.life.sync(ctx) }).Stop()
	}
	return b.Backend.Renew(ctx, held)
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(b.lock.layout.root, b.lock.access.Servers...)
}

// newLock checks options, fills in defaults, and returns the lock alone.
func newLock(o Options) (*lock, error) {
	o.Tick = cmp.Or(o.Tick, 2*time.Second)
	o.Session = cmp.Or(o.Session, 10*o.Tick)
	o.ZooKeeper.Root = cmp.Or(o.ZooKeeper.Root, "/election-curator")
	if o.Tick < 0 || o.Session < 6*o.Tick {
		return nil, fmt.Errorf("session is %v; it must be at least six ticks of %v", o.Session, o.Tick)
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
		layout: l, access: access, session: session, life: &lifetime{session: session, tick: o.Tick},
		claims: map[string]*claim{},
	}, nil
}

// A layout computes the paths.
type layout struct {
	kind         Layout
	read         ensemble.Kind // how the lock itself is read
	base         string        // of the names of queued nodes: "latch-" or "lock-"
	pathTemplate string        // with {election}
	paths        map[string]string
	root         string
	namePrefix   string // of our nodes in queues
}

const placeholder = "{election}"

func newLayout(o Options) (layout, error) {
	l := layout{kind: cmp.Or(o.Layout, Latch), root: o.ZooKeeper.Root, paths: o.Paths}
	l.read = ensemble.Children
	switch l.kind {
	case Latch:
		l.base = "latch-"
	case Selector:
		l.base = "lock-"
	case Node:
		l.read = ensemble.Data
	default:
		return l, fmt.Errorf("layout is %.40q; it must be latch, selector or node", o.Layout)
	}

	l.pathTemplate = cmp.Or(o.Path, l.root+"/"+string(l.kind)+"/"+placeholder)
	if !strings.Contains(l.pathTemplate, placeholder) {
		return l, fmt.Errorf("path %.80q is the same for all elections: %s is missing (that of a single"+
			" election goes into paths)", o.Path, placeholder)
	}
	paths := []string{l.root, strings.ReplaceAll(l.pathTemplate, placeholder, "x")}
	for _, path := range slices.AppendSeq(paths, maps.Values(o.Paths)) {
		if err := ensemble.CheckPath(path); err != nil {
			return l, err
		}
	}

	h := fnv.New32a()
	h.Write([]byte(l.root))
	l.namePrefix = fmt.Sprintf("_c_%08x-", h.Sum32())
	return l, nil
}

// lockPath returns the path of an election's lock: the parent of the queue, or the node.
func (l *layout) lockPath(election string) string {
	if path, ok := l.paths[election]; ok {
		return path
	}
	return strings.ReplaceAll(l.pathTemplate, placeholder, ensemble.Escape(election))
}

// heldPath is the parent of the marks that say in which terms an election's lock was taken.
func (l *layout) heldPath(election string) string {
	return l.root + "/held/" + ensemble.Escape(election)
}

// markPath is the mark of one term.
func (l *layout) markPath(election string, term uint64) string {
	return fmt.Sprintf("%s/%016x", l.heldPath(election), term)
}

// nodePath returns the path of a lock node with this name.
func (l *layout) nodePath(election, name string) string {
	if l.kind == Node {
		return l.lockPath(election)
	}
	return l.lockPath(election) + "/" + name
}

// nodePrefix starts the names of the nodes that a session has in queues: by it they are found again. Its UUID
// is made of eight digits for the root, the version 9, which no other program's UUID has, and the session.
func (l *layout) nodePrefix(session int64) string {
	id := uint64(session)
	return fmt.Sprintf("%s%04x-9000-8000-%012x-", l.namePrefix, id>>48, id&(1<<48-1))
}

// isOurs reports whether a queued node belongs to a member of this module with the same root, by its name.
// Those members exclude each other by their lease, so their nodes mean nothing to each other.
func (l *layout) isOurs(name string) bool {
	const version, all = len("_c_00000000-0000-"), len("_c_00000000-0000-0000-0000-000000000000-")
	return len(name) > all && strings.HasPrefix(name, l.namePrefix) && name[version] == '9'
}

// compare orders children as Curator does: by what follows the last base name, or by the whole name.
func (l *layout) compare(a, b string) int {
	return cmp.Or(strings.Compare(l.orderKey(a), l.orderKey(b)), strings.Compare(a, b))
}

func (l *layout) orderKey(name string) string {
	if at := strings.LastIndex(name, l.base); at >= 0 {
		return name[at+len(l.base):]
	}
	return name
}
