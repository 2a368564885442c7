package redis

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	var d *driver
	leasetest.Run(t, leasetest.Harness{
		NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			o := settled(t, server, options(server))
			return func(t testing.TB) lease.Driver {
				d = open(t, o)
				return d
			}
		},
		Edit: func(k lease.Key, text string) {
			hash := map[lease.Kind]string{lease.Records: d.keys()[2], lease.Sessions: d.keys()[3]}[k.Kind]
			if text == "" {
				server.Do(t, "HDEL", hash, k.Name)
				return
			}
			server.Do(t, "HSET", hash, k.Name, text)
		},
	})
}

// TestConformance runs the conformance suite on a server that all cases share.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, server) })))
}

// TestConformanceWithServerFaults runs the cases that need their own server.
func TestConformanceWithServerFaults(t *testing.T) {
	t.Parallel()
	testbed.OwnServers(t, harness(nil), func(t testing.TB) (conformance.Store, *testbed.RedisServer) {
		server := testbed.StartRedis(t, testbed.Options{})
		return newStore(t, server), server
	})
}

func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

// newStore returns a store with a fresh prefix for one case, behind a proxy.
func newStore(t testing.TB, server *testbed.RedisServer) conformance.Store {
	o := options(server)
	o.MaxTTL = 5 * time.Second
	settled(t, server, o)
	proxy := testbed.NewProxy(t, server.Addr())
	o.Addresses = []string{proxy.Addr()}
	records := open(t, o).keys()[2]
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(o)
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return server.Admin().HDel(context.Background(), records, election).Err()
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error { return plant(server, records, election) },
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}

// plant overwrites the record with hostile text as the holder.
func plant(server *testbed.RedisServer, records, election string) error {
	ctx := context.Background()
	value, err := server.Admin().HGet(ctx, records, election).Result()
	if err != nil {
		return err
	}
	r := map[string]any{}
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return err
	}
	text := "<script>\x1b]0;\u202e"
	r["id"], r["nonce"], r["address"], r["metadata"] = text, text, "javascript:alert(1)\n", "\x00\x1b[2J"
	planted, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return server.Admin().HSet(ctx, records, election, planted).Err()
}
