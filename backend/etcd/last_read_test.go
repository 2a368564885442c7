package etcd

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Between the moment in which a leader lets go and that in which another one leads
// lie one write of each, and nothing that only one of them has to wait for.
func TestAHandoverTakesTwoTransactions(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	l := newLab(t, n.URL())
	a, b := l.node(t, "a"), l.node(t, "b")
	const ttl = 10 * time.Second // or a busy machine lets a session run out
	got, err := a.bid(a.read("jobs"), ttl)
	if err != nil {
		t.Fatal(err)
	}
	held := got.Lease
	ctx, cancel := b.ctx()
	defer cancel()
	if err := b.Announce(ctx, backend.Member{Candidate: b.me, TTL: ttl}); err != nil { // it has an etcd lease
		t.Fatal(err)
	}
	seen := b.read("jobs")
	before := countRequests(t, n)
	heard := b.listenAsync(seen)
	if err := a.release(held, backend.Released); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Fatal(err)
	}
	changed, err := b.Observe(ctx, []backend.Lease{seen})
	if err != nil || len(changed) != 1 || !changed[0].Vacant() || changed[0].End != backend.Released || changed[0].LastID != "a" {
		t.Fatalf("after a release was heard: %+v, %v; want the lease, free", changed, err)
	}
	got, err = b.bid(changed[0], ttl)
	if err != nil || got.Outcome != backend.Granted {
		t.Fatalf("a bid for what was heard to be free: %v, %v", got.Outcome, err)
	}
	spent := countRequests(t, n)
	for method, want := range map[string]float64{"Txn": 2, "LeaseKeepAlive": 0, "LeaseGrant": 0, "Range": 0, "Watch": 1} {
		if n := spent[method] - before[method]; n != want {
			t.Errorf("%s was called %v times; want %v", method, n, want)
		}
	}
	b.mustRenew(got.Lease)
}

// What is remembered is compared, whatever else has happened.
func TestABidOverAnOldReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(l *lab, o *node)
	}{
		{"led and released by another", func(l *lab, o *node) {
			if err := o.release(o.lead("jobs"), backend.Released); err != nil {
				t.Error(err)
			}
		}},
		{"held by another", func(l *lab, o *node) { o.lead("jobs") }},
		{"written again by hand", func(l *lab, o *node) {
			got, err := l.admin.Get(t.Context(), l.keys.record("jobs"))
			if err != nil || len(got.Kvs) != 1 {
				t.Error(got, err)
				return
			}
			l.put(t, l.keys.record("jobs"), string(got.Kvs[0].Value))
		}},
		{"deleted by hand", func(l *lab, o *node) { l.del(t, l.keys.record("jobs")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			a, b, other := l.node(t, "a"), l.node(t, "b"), l.node(t, "other")
			if err := a.release(a.lead("jobs"), backend.Released); err != nil {
				t.Fatal(err)
			}
			seen := b.read("jobs")
			c.change(l, other)
			if got, err := b.bid(seen, ttl); err != nil || got.Outcome != backend.Refused {
				t.Errorf("a bid over what was read before: %v in term %d, %v; want it refused", got.Outcome, got.Term, err)
			}
		})
	}
}

// A store that was restored counts revisions anew: the same number may stand for
// other contents.
func TestRememberedRecordsAreComparedByValue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	if err := a.release(a.lead("jobs"), backend.Released); err != nil {
		t.Fatal(err)
	}
	seen := b.read("jobs")
	e := &b.lastRead.entries[0]
	e.raw = append(slices.Clone(e.raw), ' ')
	bids := []backend.Bid{{Election: "jobs", Candidate: b.me, TTL: ttl, Renew: ttl / 3, Expected: seen}}
	ctx, cancel := b.ctx()
	defer cancel()
	r := b.rememberedFor(bids, []int{0})
	if r == nil {
		t.Fatal("what was just read is not remembered")
	}
	resp, err := b.txn(ctx, b.unchanged([]change{{entry: &r.entries[0]}}), []clientv3.Op{clientv3.OpPut(l.prefix+"x", "")}, false)
	if err != nil || resp.Succeeded {
		t.Errorf("a transaction that is pinned to another content at the same revision was done: %v, %v", resp, err)
	}

	held := a.lead("jobs")
	mine := a.held["jobs"].entry
	if mine == nil {
		t.Fatal("what was just written is not remembered")
	}
	mine.raw = append(slices.Clone(mine.raw), ' ')
	if err := a.release(held, backend.Released); err != nil { // by a reading
		t.Fatal(err)
	}
	b.waitUntilFree("jobs", patience)
}

// A release by what is remembered ends that leadership and no other.
func TestAReleaseEndsItsOwnTermOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	next := b.mustTakeOver(b.read("jobs"))
	if err := a.release(held, backend.Failed); err != nil {
		t.Fatal(err)
	}
	b.mustRenew(next)
}

// While many elections that were deleted are watched, those that are led again do
// not make the others wait anew.
func TestDeletedElectionsAreWatchedSeparately(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	for _, name := range []string{"one", "two", "three"} {
		a.lead(name)
		l.del(t, l.keys.record(name))
	}
	for _, id := range []string{"met it", "late"} { // a is to be granted what it has led
		b := l.node(t, "b")
		one, two := b.read("one"), b.read("two")
		if one.ObserveFor < ttl || two.ObserveFor < ttl {
			t.Fatalf("deleted elections: %+v and %+v; want both watched", one, two)
		}
		who := a
		if id == "late" {
			who = l.node(t, id)
		}
		held, err := who.bid(who.read("one"), ttl)
		if err != nil || held.Outcome != backend.Granted {
			t.Fatalf("%s: a bid for a deleted election: %v, %v", id, held.Outcome, err)
		}
		if now := b.read("two"); !now.Unchanged(two) {
			t.Errorf("%s: after another deleted election was led: %+v; want %+v, whose watch goes on", id, now, two)
		}
		l.del(t, l.keys.record("one"))
		if now := b.read("two"); now.Unchanged(two) {
			t.Errorf("%s: after another election was deleted: %+v; want its watch to begin anew, since it may have been this one", id, now)
		}
	}
}
