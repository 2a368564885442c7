package etcd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
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
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, open(t, o))
}

// dial returns a client for changes that tests make in the store.
func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A node is a Backend with its candidate, as one process would have it.
type node struct {
	*Backend
	t  testing.TB
	me backend.Candidate
}

func openNode(t testing.TB, id string, o Options) *node {
	t.Helper()
	return &node{open(t, o), t, backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: id + ":1", Metadata: "made for a test"}}
}

func (n *node) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(n.t.Context(), callLimit)
}

// read reads one lease as if for the first time.
func (n *node) read(election string) backend.Lease {
	n.t.Helper()
	l, err := n.tryRead(election)
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

func (n *node) tryRead(election string) (backend.Lease, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	changed, err := n.Observe(ctx, []backend.Lease{{Election: election}})
	if err != nil {
		return backend.Lease{}, err
	}
	if len(changed) != 1 {
		return backend.Lease{}, fmt.Errorf("Observe of a zero lease returned %d leases; a zero lease is always returned", len(changed))
	}
	return changed[0], nil
}

func (n *node) bid(over backend.Lease, ttl time.Duration) (backend.Answer, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, []backend.Bid{{Election: over.Election, Candidate: n.me, TTL: ttl, Renew: ttl / 3, Expected: over}})
	if len(answers) != 1 {
		return backend.Answer{Err: err}, err
	}
	return answers[0], err
}

// lead makes the node win an election that is free.
func (n *node) lead(election string) backend.Lease {
	n.t.Helper()
	a, err := n.bid(n.read(election), ttl)
	if err != nil || a.Outcome != backend.Granted {
		n.t.Fatalf("%s bids for %q as it is: %v, %v, %v; want granted", n.me.ID, election, a.Outcome, a.Err, err)
	}
	return a.Lease
}

func (n *node) renew(l backend.Lease) (backend.Answer, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Renew(ctx, []backend.Held{l.Held()})
	if len(answers) != 1 {
		return backend.Answer{Err: err}, err
	}
	return answers[0], err
}

func (n *node) mustRenew(l backend.Lease) backend.Lease {
	n.t.Helper()
	a, err := n.renew(l)
	if err != nil || a.Outcome != backend.Granted {
		n.t.Fatalf("%s renews %q: %v, %v, %v; want granted", n.me.ID, l.Election, a.Outcome, a.Err, err)
	}
	return a.Lease
}

// mustRelease releases a lease.
func (n *node) mustRelease(l backend.Lease) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	l.End = backend.Released
	if err := n.Release(ctx, []backend.Held{l.Held()}); err != nil {
		n.t.Fatal(err)
	}
}

// listenAsync calls Listen in the background.
func (n *node) listenAsync(seen ...backend.Lease) chan error {
	returned := make(chan error, 1)
	go func() {
		ctx, cancel := n.ctx()
		defer cancel()
		returned <- n.Listen(ctx, seen)
	}()
	return returned
}
