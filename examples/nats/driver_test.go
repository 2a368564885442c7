package natskv

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
)

func TestDriver(t *testing.T) {
	test := func(t *testing.T, n *node, replicas int) {
		leasetest.Run(t, leasetest.Harness{NewStore: func(testing.TB) func(testing.TB) lease.Driver {
			bucket := string(backend.NewNonce()[:12])
			return func(t testing.TB) lease.Driver {
				d := mustOpen(t, n.addr(), bucket, replicas)
				t.Cleanup(func() { d.Close() })
				return d
			}
		}})
	}
	t.Run("one replica", func(t *testing.T) { test(t, startNode(t, "single", 0), 1) })
	t.Run("three replicas", func(t *testing.T) { test(t, startCluster(t)[0], 3) })
}

func mustOpen(t testing.TB, url, bucket string, replicas int, options ...nats.Option) *driver {
	d, err := Open(url, bucket, replicas, options...)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*driver)
}
