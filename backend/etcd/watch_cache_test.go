package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// renewUntilObserved renews a's lease until b's watch has shown it, and returns the lease.
func (b *node) renewUntilObserved(a *node, held backend.Lease) backend.Lease {
	b.t.Helper()
	testbed.Eventually(b.t, patience, "a renewal is observed", func() error {
		held = a.mustRenew(held)
		b.mu.Lock()
		defer b.mu.Unlock()
		if h := b.cache.heartbeats[a.currentSession().name]; h == nil {
			return errors.New("no heartbeat is observed")
		}
		return nil
	})
	return held
}

// mustObserve observes leases, and checks that the result is as c reads it, and whether
// Observe has read the store.
func (b *node) mustObserve(n *testbed.EtcdNode, c *node, read bool, what string, seen ...backend.Lease) []backend.Lease {
	b.t.Helper()
	ctx, cancel := b.ctx()
	defer cancel()
	before := countRequests(b.t, n)["Txn"]
	changed, err := b.Observe(ctx, seen)
	after := countRequests(b.t, n)["Txn"]
	if err != nil {
		b.t.Fatal(err)
	}
	if (after > before) != read {
		b.t.Errorf("%s: %v reads; want a read: %v", what, after-before, read)
	}
	now := make([]backend.Lease, len(seen))
	copy(now, seen)
	for i := range now {
		for _, l := range changed {
			if l.Election == now[i].Election {
				now[i] = l
			}
		}
		if truth := c.read(now[i].Election); truth.Differs(now[i]) {
			b.t.Errorf("%s: observed %+v; the store has %+v", what, now[i], truth)
		}
	}
	return now
}

// Observe does not read a renewal that the watch has shown. In every other case it reads, in
// particular when the watch has shown nothing.
func TestOnlyObservedRenewalsSkipReading(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	for _, c := range []struct {
		name string
		do   func(t *testing.T, l *lab, a, b *node, other backend.Lease, stop func()) // once heartbeats are observed
		read bool
	}{
		{"both are renewed", func(*testing.T, *lab, *node, *node, backend.Lease, func()) {}, false},
		{"another read came after it", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) { b.read("jobs") }, true},
		{"its session's key is deleted", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			l.del(t, l.keys.heartbeat(a.currentSession().name))
			testbed.Eventually(t, patience, "the deletion is observed", func() error {
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(b.cache.heartbeats) > 0 {
					return errors.New("the heartbeat is still cached")
				}
				return nil
			})
		}, true},
		{"Listen has returned for a request", func(t *testing.T, l *lab, a, b *node, other backend.Lease, stop func()) {
			ctx, cancel := a.ctx()
			defer cancel()
			if err := a.Request(ctx, []backend.Request{{Election: "jobs", Term: a.read("jobs").Term, Kind: backend.Nominate, ID: "b"}}); err != nil {
				t.Error(err)
			}
			stop()
		}, true},
		{"the store went back", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			b.mu.Lock()
			b.newestRevision += 1 << 20
			b.mu.Unlock()
			ctx, cancel := b.ctx()
			defer cancel()
			if _, _, err := b.readSnapshot(ctx, []clientv3.Op{clientv3.OpGet("x")}); err != nil {
				t.Error(err)
			}
			b.mu.Lock()
			b.newestRevision, b.restoredAt = 0, 1 // otherwise every record would be suspect
			b.mu.Unlock()
		}, true},
		{"it was read long ago", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for name, s := range b.cache.leases {
				s.readAt = s.readAt.Add(-(maxUnreadTTLs + 1) * ttl)
				b.cache.leases[name] = s
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, n.URL())
			a, b, fresh := l.node(t, "a"), l.node(t, "b"), l.node(t, "fresh")
			held, other := a.lead("jobs"), a.lead("other")
			seen := []backend.Lease{b.read("jobs"), b.read("other")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			returned := make(chan error, 1)
			go func() { returned <- b.Listen(ctx, seen[:1]) }()
			both := func() (h bool) {
				got, err := a.Renew(t.Context(), []backend.Held{held.Held(), other.Held()})
				if err != nil || got[0].Outcome != backend.Granted || got[1].Outcome != backend.Granted {
					t.Fatal(got, err)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				record := b.cache.heartbeats[a.currentSession().name]
				return record != nil && record.revision == a.currentSession().revision
			}
			testbed.Eventually(t, patience, "renewals are observed", func() error {
				if !both() {
					return errors.New("no heartbeat is observed")
				}
				return nil
			})
			c.do(t, l, a, b, other, func() {
				if err := <-returned; err != nil {
					t.Error(err)
				}
			})
			seen = b.mustObserve(n, fresh, c.read, "when "+c.name, seen...)
			b.mustObserve(n, fresh, true, "when nothing is observed since", seen...)
			if c.read {
				return
			}
			select {
			case err := <-returned:
				t.Fatalf("Listen returned for renewals: %v", err)
			default:
			}

			seen[0] = b.read("jobs")
			held = b.renewUntilObserved(a, held)
			seen = b.mustObserve(n, fresh, true, "when one of the two is renewed", seen...)
			held = b.renewUntilObserved(a, held)
			b.mustObserve(n, fresh, true, "beside one that was never seen", seen[0], backend.Lease{Election: "new"})
			b.renewUntilObserved(a, held)
			b.mustObserve(n, fresh, true, "beside a vacant one", seen[0], b.read("new"))
			cancel()
			<-returned
			a.mustRenew(held)
			b.mustObserve(n, fresh, true, "after Listen", seen[0])
		})
	}
}

// The watch of heartbeats may be ahead of that of records: it shows renewals of a session
// from which a lease was taken over. A challenger then believes in the old holder for longer,
// but is granted nothing by that, and reads the lease after some TTLs.
func TestHeartbeatsAheadOfRecordsGrantNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	held, other := a.lead("jobs"), a.lead("other")
	seen := b.read("jobs")
	c.mustTakeOver(c.read("jobs"))
	release(t, a, held) // otherwise its heartbeat would be in Apart
	a.mustRenew(other)
	b.deliverHeartbeat(l.key(t, l.keys.heartbeat(a.currentSession().name)))
	ctx, cancel := b.ctx()
	defer cancel()
	got, err := b.Observe(ctx, []backend.Lease{seen})
	if err != nil || len(got) != 1 || got[0].Holder.ID != "a" || got[0].Version == seen.Version || got[0].Vacant() || got[0].ObserveFor < ttl {
		t.Fatalf("when the watch has shown a's renewal: %+v, %v; want a's lease, with another heartbeat", got, err)
	}
	b.mustLose(got[0], "as the watch has shown it")
}

// A takeover is compared with its own read, whatever the watch has shown: a heartbeat that
// the watch has not delivered prevents it.
func TestATakeoverComparesWithItsOwnRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	seen := b.read("jobs")
	observe := func() backend.Lease {
		held = a.mustRenew(held)
		b.deliverHeartbeat(l.key(t, l.keys.heartbeat(a.currentSession().name)))
		ctx, cancel := b.ctx()
		defer cancel()
		got, err := b.Observe(ctx, []backend.Lease{seen})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	seen = observe()
	if truth := b.read("jobs"); !truth.Unchanged(seen) {
		t.Fatalf("observed %+v; the store has %+v", seen, truth)
	}
	held = a.mustRenew(held)
	b.mustLose(seen, "though it was renewed since")
	seen = b.read("jobs")
	b.mustTakeOver(observe())
	a.mustRefuse(held, "which was taken over")
}

// deliverHeartbeat does what the watch of heartbeats would do with a key.
func (b *node) deliverHeartbeat(kv *mvccpb.KeyValue) {
	b.t.Helper()
	b.mu.Lock()
	cluster, restored := b.cache.cluster, b.cache.restoredAt
	b.mu.Unlock()
	resp := clientv3.WatchResponse{Events: []*clientv3.Event{{Type: clientv3.EventTypePut, Kv: kv}}}
	resp.Header = &pb.ResponseHeader{ClusterId: cluster}
	if !b.cacheHeartbeats(&resp, cluster, restored) {
		b.t.Fatal("a heartbeat of the store that was read is not cached")
	}
	resp.Header.ClusterId++
	if b.cacheHeartbeats(&resp, cluster, restored) {
		b.t.Fatal("a heartbeat of another cluster is cached")
	}
}
