package curator

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	tick = testbed.ZooKeeperTick
	ttl  = 1500 * time.Millisecond
)

// TestConformance runs the suite on one real server that all cases share.
func TestConformance(t *testing.T) {
	servers := testbed.SharedZooKeeper(t)
	conformance.Run(t, testbed.InTier(conformance.Harness{
		TTL: ttl, Late: time.Second, KnowsMembers: true, Short: true, Parallel: true,
		NewStore: func(t testing.TB) conformance.Store {
			return newStore(t, servers, func(root string) Options {
				return Options{ZooKeeper: zookeeper.Options{Servers: servers, Root: root}, Tick: tick, Session: wideSession}
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
				TTL: ttl, Late: time.Second, KnowsMembers: true, Short: true, Parallel: true,
				NewStore: func(t testing.TB) conformance.Store {
					return newStore(t, servers, func(root string) Options {
						return Options{ZooKeeper: zookeeper.Options{Servers: servers, Root: root}, Layout: layout, Tick: tick, Session: wideSession}
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
	admin := testbed.DialZooKeeper(t, servers)
	open := func(t testing.TB) *Backend {
		b, err := Open(options(root))
		testbed.NoError(t, err)
		return b
	}
	l := open(t).lock.layout
	record := func(election string) string { return l.root + "/lease/record/" + ensemble.Escape(election) }
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend { return open(t) },
		Kill: func(b backend.Backend) { b.(*Backend).kill() },
		Faults: map[string]conformance.Fault{
			// Delete the record and all nodes of the election.
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				if err := admin.Delete(record(election), -1); err != nil {
					return err
				}
				if l.kind == Node {
					return ignoreMissing(admin.Delete(l.lockPath(election), -1))
				}
				nodes, _, err := admin.Children(l.lockPath(election))
				if err != nil {
					return err
				}
				for _, n := range nodes {
					if err := ignoreMissing(admin.Delete(l.lockPath(election)+"/"+n, -1)); err != nil {
						return err
					}
				}
				return nil
			},
		},
	}
}

// kill ends a Backend as the death of its process would: nothing more is sent, and the sessions are left to expire.
func (b *Backend) kill() {
	b.lock.session.Close(false)
	b.Close()
}

func ignoreMissing(err error) error {
	if err == zk.ErrNoNode {
		return nil
	}
	return err
}
