package curator

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	tick         = testbed.ZooKeeperTick
	ttl          = 1500 * time.Millisecond
	tightSession = 3100 * time.Millisecond // enough for a lease of ttl, and twice that
)

// TestConformance runs the suite on one real server that all cases share.
func TestConformance(t *testing.T) {
	servers := testbed.SharedZooKeeper(t)
	conformance.Run(t, testbed.InTier(conformance.Harness{
		TTL: ttl, Late: time.Second, Short: true, Parallel: true,
		NewStore: func(t testing.TB) conformance.Store {
			return newStore(t, servers, func(root string) Options {
				return Options{Servers: servers, Root: root, Tick: tick, MaxSession: wideSession}
			})
		},
	}))
}

// Every layout supports marks.
func TestConformanceOfMarksInOtherLayouts(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	for _, layout := range []Layout{Selector, Node} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, conformance.Harness{
				TTL: ttl, Late: time.Second, Short: true, Parallel: true,
				NewStore: func(t testing.TB) conformance.Store {
					return newStore(t, servers, func(root string) Options {
						return Options{Servers: servers, Root: root, Layout: layout, Tick: tick, MaxSession: wideSession}
					})
				},
				Only: func(c conformance.Case) bool { return c.Rule[0] == 'V' },
			})
		})
	}
}

// newStore returns a store at paths of its own for one case.
func newStore(t testing.TB, servers []string, options func(root string) Options) conformance.Store {
	root := "/t" + string(backend.NewNonce()[:12])
	admin := dial(t, servers)
	open := func(t testing.TB) *Backend {
		b, err := Open(options(root))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	l := open(t).layout
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend { return open(t) },
		Kill: func(b backend.Backend) { b.(*Backend).kill() },
		Faults: map[string]conformance.Fault{
			// Delete the record and all nodes of the election.
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				if err := admin.Delete(l.recordPath(election), -1); err != nil {
					return err
				}
				nodes, _, err := admin.Children(l.lockPath(election))
				if err != nil {
					return err
				}
				for _, n := range nodes {
					if err := admin.Delete(l.lockPath(election)+"/"+n, -1); err != nil && err != zk.ErrNoNode {
						return err
					}
				}
				return nil
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				data, _, err := admin.Get(l.recordPath(election))
				if err != nil {
					return err
				}
				r, err := parseRecord(data, election)
				if err != nil {
					return err
				}
				r.Holder.ID, r.Holder.Address, r.Holder.Metadata = "<script>\x1b]0;\u202e", "javascript:alert(1)\n", "\x00\x1b[2J"
				_, err = admin.Set(l.recordPath(election), r.encode(), -1)
				return err
			},
		},
	}
}

// noLogger drops what a plain client logs.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// dial connects a plain client, such as an operator uses.
func dial(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(noLogger{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
