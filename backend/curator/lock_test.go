package curator

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance/besidetest"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// The lock nodes do what package beside relies on, beside programs that elect by them.
func TestTheNodesObeyTheRulesOfLocks(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector, Node} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			besidetest.Run(t, func(t testing.TB) besidetest.Harness {
				o := shared(t)
				o.Layout, o.Session = layout, 6*tick
				programs := &programs{layout: openLock(t, o).layout, servers: o.ZooKeeper.Servers, clients: map[string]*zk.Conn{}}
				return besidetest.Harness{
					Open:      func(t testing.TB) beside.Lock { return openLock(t, o) },
					Run:       programs.run,
					End:       programs.end,
					Threshold: o.Session,
				}
			})
		})
	}
}

func openLock(t testing.TB, o Options) *lock {
	t.Helper()
	k, err := newLock(o)
	testbed.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	return k
}

// programs are other programs that elect by lock nodes, each with a session of its own.
type programs struct {
	layout  layout
	servers []string
	clients map[string]*zk.Conn
}

// run has a program make its node, unless it has one, and look whether it leads.
func (p *programs) run(t testing.TB, election, program string) bool {
	t.Helper()
	c := p.clients[program]
	if c == nil {
		c = testbed.DialZooKeeper(t, p.servers)
		p.clients[program] = c
	}
	lock := p.layout.lockPath(election)
	if _, err := c.Sync("/"); err != nil {
		t.Fatal(err)
	}
	if p.layout.kind == Node {
		return p.runNode(t, c, lock, program)
	}

	makeParents(t, c, lock+"/x")
	nodes, _, err := c.Children(lock)
	testbed.NoError(t, err)
	mine := ""
	for _, n := range nodes {
		if data, _, err := c.Get(path.Join(lock, n)); err == nil && string(data) == program {
			mine = n
		}
	}
	if mine == "" {
		created, err := c.Create(lock+"/_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-"+p.layout.base, []byte(program), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		testbed.NoError(t, err)
		mine = path.Base(created)
		if nodes, _, err = c.Children(lock); err != nil {
			t.Fatal(err)
		}
	}
	return slices.MinFunc(nodes, p.layout.compare) == mine
}

func (p *programs) runNode(t testing.TB, c *zk.Conn, lock, program string) bool {
	t.Helper()
	makeParents(t, c, lock)
	_, err := c.Create(lock, []byte(program), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if err != nil && err != zk.ErrNodeExists {
		t.Fatal(err)
	}
	data, _, err := c.Get(lock)
	return err == nil && string(data) == program
}

func (p *programs) end(t testing.TB, program string) {
	p.clients[program].Close()
	delete(p.clients, program)
}

// wideSession is the session on the shared server: a busy machine does not stand still for so long.
const wideSession = 8 * time.Second

// shared returns options for fresh paths on the shared server.
func shared(t testing.TB) Options {
	return Options{ZooKeeper: zookeeper.Options{Servers: testbed.SharedZooKeeper(t), Root: "/t" + string(backend.NewNonce()[:12])}, Tick: tick, Session: wideSession}
}

// makeParents makes the parents of a path.
func makeParents(t testing.TB, c *zk.Conn, full string) {
	t.Helper()
	for i, b := range full {
		if b != '/' || i == 0 {
			continue
		}
		if _, err := c.Create(full[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
}

var errNone = errors.New("none")

// A client is one Backend and the candidate that it serves.
type client struct {
	*Backend
	*drivertest.Candidate
}

func newClient(t testing.TB, id string, o Options) *client {
	t.Helper()
	b := testbed.Open(t, Open, o)
	return &client{b, drivertest.NewCandidate(t, b, id, ttl)}
}

// Another call reads another election after the change, as a bid does while a follower begins to listen.
func TestAListenerHearsWhatAnotherReadingPassedBy(t *testing.T) {
	t.Parallel()
	o := shared(t)
	k, other, ctx := openLock(t, o), openLock(t, o), t.Context()
	_, err := k.Read(ctx, []string{"jobs"})
	testbed.NoError(t, err)
	testbed.NoError(t, other.Wait(ctx, []beside.Owned{{Election: "jobs", ID: "other"}}))
	_, err = k.Read(ctx, []string{"billing"})
	testbed.NoError(t, err)

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // it need not wait
	defer cancel()
	if err := k.Listen(ctx, []string{"jobs"}); err != nil {
		t.Errorf("%v: rule violated: Listen returns when a lock may have changed since it was read", err)
	}
}
