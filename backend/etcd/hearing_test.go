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

// hears makes a renew until b has heard of it, and returns the lease.
func (b *node) hears(a *node, held backend.Lease) backend.Lease {
	b.t.Helper()
	testbed.Eventually(b.t, patience, "a renewal is heard", func() error {
		held = a.mustRenew(held)
		b.mu.Lock()
		defer b.mu.Unlock()
		if h := b.hearing.heartbeats[a.present().name]; h == nil {
			return errors.New("nothing is heard")
		}
		return nil
	})
	return held
}

// notices observes leases, and checks that what they are then is the truth, and whether
// it was read.
func (b *node) notices(n *testbed.EtcdNode, c *node, read bool, what string, seen ...backend.Lease) []backend.Lease {
	b.t.Helper()
	ctx, cancel := b.ctx()
	defer cancel()
	before := requests(b.t, n)["Txn"]
	changed, err := b.Observe(ctx, seen)
	after := requests(b.t, n)["Txn"]
	if err != nil {
		b.t.Fatal(err)
	}
	if (after > before) != read {
		b.t.Errorf("%s: %v readings; want it read: %v", what, after-before, read)
	}
	now := make([]backend.Lease, len(seen))
	copy(now, seen)
	for i := range now {
		for _, l := range changed {
			if l.Election == now[i].Election {
				now[i] = l
			}
		}
		if truth := c.see(now[i].Election); truth.Differs(now[i]) {
			b.t.Errorf("%s: %+v is what was observed; the truth is %+v", what, now[i], truth)
		}
	}
	return now
}

// A renewal that was heard is not read. That nothing was heard is never an answer, nor
// anything else that may have become of a lease.
func TestOnlyRenewalsThatWereHeardAreNotRead(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	for _, c := range []struct {
		name string
		do   func(t *testing.T, l *lab, a, b *node, other backend.Lease, stop func()) // once heartbeats are heard
		read bool
	}{
		{"both are renewed", func(*testing.T, *lab, *node, *node, backend.Lease, func()) {}, false},
		{"another reading came after it", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) { b.see("jobs") }, true},
		{"its session's key is deleted", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			l.del(t, l.keys.heartbeat(a.present().name))
			testbed.Eventually(t, patience, "it is heard", func() error {
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(b.hearing.heartbeats) > 0 {
					return errors.New("the heartbeat is still remembered")
				}
				return nil
			})
		}, true},
		{"Listen has come back for a request", func(t *testing.T, l *lab, a, b *node, other backend.Lease, stop func()) {
			ctx, cancel := a.ctx()
			defer cancel()
			if err := a.Request(ctx, []backend.Request{{Election: "jobs", Term: a.see("jobs").Term, Kind: backend.Nominate, ID: "b"}}); err != nil {
				t.Error(err)
			}
			stop()
		}, true},
		{"the store has gone back", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			b.mu.Lock()
			b.newest += 1 << 20
			b.mu.Unlock()
			ctx, cancel := b.ctx()
			defer cancel()
			if _, _, err := b.look(ctx, []clientv3.Op{clientv3.OpGet("x")}); err != nil {
				t.Error(err)
			}
			b.mu.Lock()
			b.newest, b.restored = 0, 1 // or all of it is old
			b.mu.Unlock()
		}, true},
		{"it was read long ago", func(t *testing.T, l *lab, a, b *node, _ backend.Lease, _ func()) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for name, s := range b.hearing.sights {
				s.at = s.at.Add(-(unread + 1) * ttl)
				b.hearing.sights[name] = s
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, n.URL())
			a, b, fresh := l.node(t, "a"), l.node(t, "b"), l.node(t, "fresh")
			held, other := a.lead("jobs"), a.lead("other")
			seen := []backend.Lease{b.see("jobs"), b.see("other")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			heard := make(chan error, 1)
			go func() { heard <- b.Listen(ctx, seen[:1]) }()
			both := func() (h bool) {
				got, err := a.Renew(t.Context(), []backend.Held{held.Held(), other.Held()})
				if err != nil || got[0].Outcome != backend.Granted || got[1].Outcome != backend.Granted {
					t.Fatal(got, err)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				home := b.hearing.heartbeats[a.present().name]
				return home != nil && home.at == a.present().at
			}
			testbed.Eventually(t, patience, "renewals are heard", func() error {
				if !both() {
					return errors.New("nothing is heard")
				}
				return nil
			})
			c.do(t, l, a, b, other, func() {
				if err := <-heard; err != nil {
					t.Error(err)
				}
			})
			seen = b.notices(n, fresh, c.read, "when "+c.name, seen...)
			b.notices(n, fresh, true, "when nothing is heard since", seen...)
			if c.read {
				return
			}
			select {
			case err := <-heard:
				t.Fatalf("Listen came back for renewals: %v", err)
			default:
			}

			seen[0] = b.see("jobs")
			held = b.hears(a, held)
			seen = b.notices(n, fresh, true, "when one of the two is renewed", seen...)
			held = b.hears(a, held)
			b.notices(n, fresh, true, "beside one that was never seen", seen[0], backend.Lease{Election: "new"})
			b.hears(a, held)
			b.notices(n, fresh, true, "beside a vacant one", seen[0], b.see("new"))
			cancel()
			<-heard
			a.mustRenew(held)
			b.notices(n, fresh, true, "after Listen", seen[0])
		})
	}
}

// The watch of heartbeats may be ahead of that of records: a session goes on, of which a lease
// was taken away. Whoever hears that believes in the old holder for longer, and is granted
// nothing by it, and it is read after some TTLs.
func TestHeartbeatsThatAreAheadOfRecordsGrantNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	held, other := a.lead("jobs"), a.lead("other")
	seen := b.see("jobs")
	c.takes(c.see("jobs"))
	release(t, a, held) // or its heartbeat would stand apart
	a.mustRenew(other)
	b.told(l.key(t, l.keys.heartbeat(a.present().name)))
	ctx, cancel := b.ctx()
	defer cancel()
	got, err := b.Observe(ctx, []backend.Lease{seen})
	if err != nil || len(got) != 1 || got[0].Holder.ID != "a" || got[0].Heartbeat == seen.Heartbeat || got[0].Vacant() || got[0].ObserveFor < ttl {
		t.Fatalf("when a's session was heard to be renewed: %+v, %v; want a's lease, with another heartbeat", got, err)
	}
	b.mustLose(got[0], "by what was heard")
}

// A takeover is compared with a reading of its own, whatever was heard: a heartbeat that was
// not heard undoes it.
func TestATakeOverByHeartbeatsThatWereHeardIsComparedWithAReading(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	seen := b.see("jobs")
	hear := func() backend.Lease {
		held = a.mustRenew(held)
		b.told(l.key(t, l.keys.heartbeat(a.present().name)))
		ctx, cancel := b.ctx()
		defer cancel()
		got, err := b.Observe(ctx, []backend.Lease{seen})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	seen = hear()
	if truth := b.see("jobs"); !truth.Unchanged(seen) {
		t.Fatalf("what was heard is %+v, the truth is %+v", seen, truth)
	}
	held = a.mustRenew(held)
	b.mustLose(seen, "though it was renewed after what was heard")
	seen = b.see("jobs")
	b.takes(hear())
	a.mustRefuse(held, "which was taken over")
}

// told is what the watch of heartbeats would do with a key as it is now.
func (b *node) told(kv *mvccpb.KeyValue) {
	b.t.Helper()
	b.mu.Lock()
	cluster, restored := b.hearing.cluster, b.hearing.restored
	b.mu.Unlock()
	resp := clientv3.WatchResponse{Events: []*clientv3.Event{{Type: clientv3.EventTypePut, Kv: kv}}}
	resp.Header = &pb.ResponseHeader{ClusterId: cluster}
	if !b.renewals(&resp, cluster, restored) {
		b.t.Fatal("what is told of the store is not of the store")
	}
	resp.Header.ClusterId++
	if b.renewals(&resp, cluster, restored) {
		b.t.Fatal("what is told of another cluster is believed")
	}
}
