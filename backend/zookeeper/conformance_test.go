package zookeeper

import (
	"errors"
	"flag"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// Most tests wait for leases to expire, so many of them run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	admin := testbed.DialZooKeeper(t, servers)
	var o Options
	leasetest.Run(t, leasetest.Harness{
		NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			o = Options{Servers: servers, Root: newRoot(t, servers)}
			return func(t testing.TB) lease.Driver { return start(t, "", o).driver }
		},
		Edit: func(k lease.Key, text string) {
			path := root(o.Root).path(k)
			_, err := admin.Set(path, []byte(text), -1)
			switch {
			case text == "":
				err = admin.Delete(path, -1)
			case err == zk.ErrNoNode:
				_, err = admin.Create(path, []byte(text), 0, zk.WorldACL(zk.PermAll))
			}
			if err != nil {
				t.Error(err)
			}
		},
	})
}

// TestConformance runs the conformance suite on one server.
func TestConformance(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, servers) })))
}

// TestConformanceWithServerFaults runs the cases that need their own server.
func TestConformanceWithServerFaults(t *testing.T) {
	t.Parallel()
	testbed.OwnServers(t, harness(nil), func(t testing.TB) (conformance.Store, *testbed.Daemon) {
		server := testbed.StartZooKeeper(t, testbed.Options{})
		return newStore(t, []string{server.Addr()}), server
	})
}

func harness(newStore func(testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 1500 * time.Millisecond, Late: time.Second, KnowsMembers: true, Short: true, Parallel: true, NewStore: newStore}
}

// newRoot returns a root of its own for one test.
func newRoot(t testing.TB, servers []string) string {
	return "/t" + string(backend.NewNonce()[:12])
}

// newStore returns a store with a root of its own for one case, behind proxies.
func newStore(t testing.TB, servers []string) conformance.Store {
	path := newRoot(t, servers)
	admin := testbed.DialZooKeeper(t, servers)
	var proxies []*testbed.Proxy
	var through []string
	for _, s := range servers {
		p := testbed.NewProxy(t, s)
		proxies, through = append(proxies, p), append(through, p.Addr())
	}
	r := root(path)
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(Options{Servers: through, Root: path})
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return admin.Delete(r.path(lease.Key{Kind: lease.Records, Name: election}), -1)
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return plant(admin, r.path(lease.Key{Kind: lease.Records, Name: election}))
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxies...))
	return store
}

// plant overwrites the record with hostile text as the holder.
func plant(admin *zk.Conn, path string) error {
	data, stat, err := admin.Get(path)
	if err != nil {
		return err
	}
	r, ok := lease.Decode(lease.Records, data).(*lease.Record)
	if !ok {
		return errors.New("no record to plant over")
	}
	text := "<script>\x1b]0;\u202e"
	r.ID, r.Nonce, r.Address, r.Metadata, r.Heartbeat = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", r.Heartbeat+2
	_, err = admin.Set(path, []byte(lease.Encode(r)), stat.Version)
	return err
}
