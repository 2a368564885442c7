package consul

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// Tests that start servers of their own do not call t.Parallel. Starting servers keeps both cores of
// a small machine busy for a while, so these tests end before the suite begins.

// harness has the settings for a suite in real time.
func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: 1500 * time.Millisecond, Short: true, Parallel: true, NewStore: newStore}
}

// TestConformance runs the suite on one server.
func TestConformance(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, agent) })))
}

// TestConformanceOnThreeServers runs the suite on a cluster. Each server has some of the clients. It
// runs all cases about the contract, about safety, and about the next leader. The cases about
// cost and about managers among themselves do not depend on the number of servers.
func TestConformanceOnThreeServers(t *testing.T) {
	t.Parallel()
	agents := testbed.StartConsulCluster(t, 3)
	h := harness(func(t testing.TB) conformance.Store { return newStore(t, agents...) })
	h.Only = func(c conformance.Case) bool { return c.Rule[0] != 'L' || c.Rule == "L1" || c.Rule == "L2" }
	conformance.Run(t, h)
}

// TestConformanceUnderServerFaults runs the cases that need a server of their own: it is
// killed and restarted, and suspended for a while.
func TestConformanceUnderServerFaults(t *testing.T) {
	testbed.OwnServers(t, harness(nil), func(t testing.TB) (conformance.Store, *testbed.Daemon) {
		agent := testbed.StartConsul(t, testbed.Options{})
		return newStore(t, agent), agent
	})
}

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, driverHarness(t, testbed.SharedConsul(t)))
}

// TestDriverOfARestoredServer runs the same on a server to which an operator restores a snapshot.
func TestDriverOfARestoredServer(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{})
	h, root := driverHarness(t, agent), admins(t, agent)
	h.GoBack = func() func() {
		snapshot, _, err := root.Snapshot().Save(nil)
		testbed.NoError(t, err)
		defer snapshot.Close()
		saved, err := io.ReadAll(snapshot)
		testbed.NoError(t, err)
		return func() {
			testbed.NoError(t, root.Snapshot().Restore(nil, bytes.NewReader(saved)))
			testbed.Eventually(t, time.Minute, "the server answers", func() error {
				_, _, err := root.KV().Get("x", &api.QueryOptions{RequireConsistent: true})
				return err
			})
		}
	}
	leasetest.Run(t, h)
}

// driverHarness makes stores, each of which has a prefix of its own.
func driverHarness(t *testing.T, agent *testbed.Daemon) leasetest.Harness {
	root := admins(t, agent)
	var d *driver
	return leasetest.Harness{
		NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			prefix := "test/" + string(backend.NewNonce()[:16])
			t.Cleanup(func() { wipe(root, prefix) })
			return func(t testing.TB) lease.Driver {
				d = open(t, Options{Address: agent.URL(), Prefix: prefix}).driver
				return d
			}
		},
		Edit: func(k lease.Key, text string) {
			pair, _, err := root.KV().Get(d.key(k), nil)
			if pair == nil {
				pair = &api.KVPair{Key: d.key(k)}
			}
			pair.Value = []byte(text)
			switch {
			case err == nil && text == "":
				_, err = root.KV().Delete(pair.Key, nil)
			case err == nil:
				_, err = root.KV().Put(pair, nil) // with the flags that it has, as the UI does
			}
			if err != nil {
				t.Error(err)
			}
		},
	}
}

// newStore makes a store with a prefix of its own. Each client connects through a proxy to one of the agents.
func newStore(t testing.TB, agents ...*testbed.Daemon) conformance.Store {
	prefix := "test/" + string(backend.NewNonce()[:16])
	root := admins(t, agents[0])
	t.Cleanup(func() { wipe(root, prefix) })
	var proxies []*testbed.Proxy
	var opened atomic.Uint32
	for _, a := range agents {
		proxies = append(proxies, a.Proxy(t))
	}
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			proxy := proxies[int(opened.Add(1))%len(proxies)]
			return open(t, Options{Address: proxy.Addr(), Prefix: prefix})
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := root.KV().Delete(prefix+"/record/"+election, nil)
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				pair, _, err := root.KV().Get(prefix+"/record/"+election, nil)
				if err != nil || pair == nil {
					return err
				}
				value, _ := lease.Decode(lease.Records, pair.Value).(*lease.Record)
				value.ID, value.Address, value.Metadata = "<script>\x1b]0;\u202e", "javascript:alert(1)\n", "\x00\x1b[2J"
				value.Heartbeat += 2
				pair.Value = []byte(lease.Encode(value))
				_, err = root.KV().Put(pair, nil)
				return err
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxies...))
	return store
}

func open(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// admins returns a client with an operator's rights.
func admins(t testing.TB, a *testbed.Daemon) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: a.URL(), Token: testbed.ConsulToken, Transport: &http.Transport{TLSClientConfig: a.TLSConfig(), DisableKeepAlives: true}})
	testbed.NoError(t, err)
	return client
}
