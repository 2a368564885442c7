package redis

import (
	"flag"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// Most tests wait for leases to expire, so many of them run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// options are those of a fresh prefix of a server.
func options(server *testbed.RedisServer) Options {
	return Options{Addresses: []string{server.Addr()}, Prefix: string(backend.NewNonce()[:12])}
}

// open opens a driver, which the test closes.
func open(t testing.TB, o Options) *driver {
	t.Helper()
	return testbed.Open(t, newDriver, o)
}

// ownClient returns a client as a program hands it in.
func ownClient(t testing.TB, o *goredis.Options) *goredis.Client {
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func backendOn(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// settled makes the store one that has not just lost all, as a server is that began long ago.
func settled(t testing.TB, server *testbed.RedisServer, o Options) Options {
	t.Helper()
	d := open(t, o)
	drivertest.Read(t, d)
	server.Do(t, "DEL", d.keys()[4])
	return o
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, backendOn(t, o))
}

// candidate returns a new candidate. A backend grants leases to one only.
func candidate(t testing.TB, b *Backend) *drivertest.Candidate {
	return drivertest.NewCandidate(t, b, "a", 9*time.Second)
}

var metaKey = lease.Key{Kind: lease.Metas}

func recordKey(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }
