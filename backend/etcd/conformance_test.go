package etcd

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, driverHarness(t, testbed.SharedEtcd(t)...))
}

// TestDriverOfARestoredNode runs the same on a node whose data an operator restores from a copy.
func TestDriverOfARestoredNode(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.Options{})
	h := driverHarness(t, n.URL())
	h.GoBack = func() func() {
		n.Kill(t)
		saved := n.SaveData(t)
		n.Start(t)
		return func() {
			n.Kill(t)
			n.ReplaceData(t, saved)
			n.Start(t)
		}
	}
	leasetest.Run(t, h)
}

// driverHarness makes stores, each of which has a fresh prefix.
func driverHarness(t testing.TB, endpoints ...string) leasetest.Harness {
	admin := dial(t, endpoints...)
	var o Options
	return leasetest.Harness{
		NewStore: func(testing.TB) func(testing.TB) lease.Driver {
			o = options(endpoints...)
			return func(t testing.TB) lease.Driver { return open(t, o).driver }
		},
		Edit: func(k lease.Key, text string) {
			key := keyPrefix(o.Prefix).key(k)
			_, err := admin.Put(t.Context(), key, text)
			if text == "" {
				_, err = admin.Delete(t.Context(), key)
			}
			if err != nil {
				t.Error(err)
			}
		},
	}
}

// TestConformance runs the conformance suite on a single node.
func TestConformance(t *testing.T) {
	t.Parallel()
	endpoints := testbed.SharedEtcd(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, endpoints) })))
}

// TestConformanceWithServerFaults runs the cases that need their own node.
func TestConformanceWithServerFaults(t *testing.T) {
	t.Parallel()
	testbed.OwnServers(t, harness(nil), func(t testing.TB) (conformance.Store, *testbed.Daemon) {
		node := testbed.StartEtcd(t, testbed.Options{})
		return newStore(t, []string{node.URL()}), node
	})
}

// harness configures the conformance suite for etcd in real time.
func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

// newStore returns a store with a fresh prefix for one case, behind proxies.
func newStore(t testing.TB, endpoints []string) conformance.Store {
	prefix := "case-" + string(backend.NewNonce()[:12]) + "/"
	admin := dial(t, endpoints...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		admin.Delete(ctx, prefix, clientv3.WithPrefix())
	})
	var proxies []*testbed.Proxy
	var through []string
	for _, e := range endpoints {
		p := testbed.NewProxy(t, strings.TrimPrefix(e, "http://"))
		proxies, through = append(proxies, p), append(through, p.Addr())
	}
	k := keyPrefix(prefix)
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(Options{Endpoints: through, Prefix: prefix})
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := admin.Delete(context.Background(), k.key(lease.Key{Kind: lease.Records, Name: election}))
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return plant(admin, k.key(lease.Key{Kind: lease.Records, Name: election}))
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxies...))
	return store
}

// plant overwrites the record with hostile text as the holder.
func plant(admin *clientv3.Client, key string) error {
	ctx := context.Background()
	got, err := admin.Get(ctx, key)
	if err != nil || len(got.Kvs) != 1 {
		return errors.Join(err, errors.New("no record to plant over"))
	}
	r := lease.Decode(lease.Records, got.Kvs[0].Value).(*lease.Record)
	text := "<script>\x1b]0;\u202e"
	r.ID, r.Nonce, r.Address, r.Metadata, r.Heartbeat = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", r.Heartbeat+2
	_, err = admin.Put(ctx, key, lease.Encode(r))
	return err
}
