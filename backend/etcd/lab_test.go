package etcd

import (
	"flag"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-election/go-election/backend"
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

const (
	patience  = 2 * time.Minute // how long an event may take on a busy machine; usually it takes a second or two
	callLimit = time.Minute
	ttl       = 10 * time.Second // no test waits for it; on a busy machine no session must end
)

// options are those of a fresh prefix.
func options(endpoints ...string) Options {
	return Options{Endpoints: endpoints, Prefix: "lab-" + string(backend.NewNonce()[:12]) + "/"}
}

// open opens a Backend, which the test closes.
func open(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, open(t, o))
}

// dial returns a client for changes that tests make in the store.
func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	return testbed.Open(t, clientv3.New, clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
}

// A node is a Backend with its candidate, as one process would have it.
type node struct {
	*Backend
	*drivertest.Candidate
}

func openNode(t testing.TB, id string, o Options) *node {
	t.Helper()
	b := open(t, o)
	return &node{b, drivertest.NewCandidate(t, b, id, ttl)}
}

// listenAsync calls Listen in the background.
func (n *node) listenAsync(seen ...backend.Lease) chan error {
	returned, ctx := make(chan error, 1), n.Context()
	go func() { returned <- n.Listen(ctx, seen) }()
	return returned
}
