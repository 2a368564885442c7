package etcd

import (
	"context"
	"errors"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// observe observes a lease, and reports whether that has read the store.
func (n *node) observe(server *testbed.EtcdNode, seen backend.Lease) (now backend.Lease, read bool) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	before := countRequests(n.t, server)["Txn"]
	changed, err := n.Observe(ctx, []backend.Lease{seen})
	if err != nil {
		n.t.Fatal(err)
	}
	if now = seen; len(changed) == 1 {
		now = changed[0]
	}
	return now, countRequests(n.t, server)["Txn"] > before
}

// Observe does not read a renewal that the watch has shown. In every other case it reads, in
// particular when the watch has shown nothing.
func TestOnlyObservedRenewalsSkipReading(t *testing.T) {
	t.Parallel()
	server := testbed.StartEtcd(t, testbed.EtcdOptions{})
	l := newLab(t, server.URL())
	a, b, fresh := l.node(t, "a"), l.node(t, "b"), l.node(t, "fresh")
	held := a.lead("jobs")
	seen := b.read("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- b.Listen(ctx, []backend.Lease{seen}) }()
	for range 3 {
		testbed.Eventually(t, patience, "a renewal is observed without a reading", func() error {
			held = a.mustRenew(held)
			was := seen
			var read bool
			if seen, read = b.observe(server, seen); read || seen.Unchanged(was) {
				return errors.New("it was read")
			}
			return nil
		})
		if truth := fresh.read("jobs"); truth.Term != seen.Term || truth.Holder != seen.Holder || truth.ObserveFor != seen.ObserveFor {
			t.Errorf("observed %+v; the store has %+v", seen, truth)
		}
	}
	seen, _ = b.observe(server, seen)
	if now, read := b.observe(server, seen); !read || !now.Unchanged(seen) {
		t.Errorf("when nothing was observed since: %+v, read: %v; want a reading", now, read)
	}
	select {
	case err := <-returned:
		t.Errorf("Listen returned for renewals: %v", err)
	default:
	}
	l.del(t, l.session(a))
	testbed.Eventually(t, patience, "a lost session is read", func() error {
		if now, read := b.observe(server, seen); !read || now.Unchanged(seen) || now.ObserveFor < ttl {
			return errors.New("it is as before")
		}
		return nil
	})
	b.mustLose(seen, "though its session was deleted since")
}

// A takeover is compared with its own reading, whatever the watch has shown: a heartbeat that the
// watch has not delivered prevents it.
func TestATakeoverComparesWithItsOwnRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	seen := b.read("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- b.Listen(ctx, []backend.Lease{seen}) }()
	held = a.mustRenew(held)
	testbed.Eventually(t, patience, "the renewal is observed", func() error {
		changed, err := b.Observe(t.Context(), []backend.Lease{seen})
		if err != nil || len(changed) != 1 {
			return errors.Join(err, errors.New("nothing has changed"))
		}
		seen = changed[0]
		return nil
	})
	cancel()
	<-returned // from now on the watch delivers nothing
	held = a.mustRenew(held)
	b.mustLose(seen, "though it was renewed since")
	b.mustTakeOver(b.read("jobs"))
	a.mustRefuse(held, "which was taken over")
}
