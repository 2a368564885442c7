package etcd

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// Between the release of one leader and the grant of the next there is one transaction of
// each and one watch event, and nothing else to wait for.
func TestAHandoverTakesTwoTransactions(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	l := newLab(t, n.URL())
	a, b := l.node(t, "a"), l.node(t, "b")
	const ttl = 10 * time.Second // on a busy machine no session must expire
	got, err := a.bid(a.read("jobs"), ttl)
	if err != nil {
		t.Fatal(err)
	}
	held := got.Lease
	ctx, cancel := b.ctx()
	defer cancel()
	if err := b.Announce(ctx, backend.Member{Candidate: b.me, TTL: ttl}); err != nil { // it has a session
		t.Fatal(err)
	}
	seen := b.read("jobs")
	before := countRequests(t, n)
	returned := b.listenAsync(seen)
	if err := a.release(held, backend.Released); err != nil {
		t.Fatal(err)
	}
	if err := <-returned; err != nil {
		t.Fatal(err)
	}
	changed, err := b.Observe(ctx, []backend.Lease{seen})
	if err != nil || len(changed) != 1 || !changed[0].Vacant() || changed[0].End != backend.Released || changed[0].LastID != "a" {
		t.Fatalf("after the watch has shown a release: %+v, %v; want the lease, free", changed, err)
	}
	got, err = b.bid(changed[0], ttl)
	if err != nil || got.Outcome != backend.Granted {
		t.Fatalf("a bid for a lease that the watch has shown as free: %v, %v", got.Outcome, err)
	}
	spent := countRequests(t, n)
	for method, want := range map[string]float64{"Txn": 2, "Range": 0, "Watch": 1} {
		if n := spent[method] - before[method]; n != want {
			t.Errorf("%s was called %v times; want %v", method, n, want)
		}
	}
	b.mustRenew(got.Lease)
}

// A bid by the last read is refused if the record has changed since, in whatever way.
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
		{"written again manually", func(l *lab, o *node) {
			got, err := l.admin.Get(t.Context(), l.record("jobs"))
			if err != nil || len(got.Kvs) != 1 {
				t.Error(got, err)
				return
			}
			l.put(t, l.record("jobs"), string(got.Kvs[0].Value))
		}},
		{"deleted manually", func(l *lab, o *node) { l.del(t, l.record("jobs")) }},
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
				t.Errorf("a bid over an old read: %v in term %d, %v; want it refused", got.Outcome, got.Term, err)
			}
		})
	}
}

// A restored store counts revisions anew, so the same revision may have another value.
func TestRememberedRecordsAreComparedByValue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	a.mustRelease(a.lead("jobs"))
	ctx, cancel := a.ctx()
	defer cancel()
	d := a.driver
	v, err := d.Read(ctx, []lease.Key{{Kind: lease.Records, Name: "jobs"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		term uint64
		want backend.Outcome
	}{{1, backend.Refused}, {0, backend.Granted}} {
		it := v.Items[0]
		r := *it.Value.(*lease.Record)
		it.Remembered, it.Value, r.Term = true, &r, r.Term+c.term
		w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: it, Value: &r}}}}, nil)
		if err != nil || w.Results[0].Outcome != c.want {
			t.Errorf("a change over this revision with a term that is %d higher: %v, %v; want %v", c.term, w.Results, err, c.want)
		}
	}
}

// A release by the remembered grant ends that leadership and no later one.
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

// While several deleted elections are watched, one that is led again does not make the others
// wait anew.
func TestDeletedElectionsAreWatchedSeparately(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	for _, name := range []string{"one", "two", "three"} {
		a.lead(name)
		l.del(t, l.record(name))
	}
	for _, id := range []string{"met it", "late"} { // a itself bids as well, because it led the elections
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
		if now := b.read("two"); !now.Unchanged(two) && now.ObserveFor > 0 {
			t.Errorf("%s: after another deleted election was led: %+v; want %+v, whose watch continues, or a free lease, since the other one was watched", id, now, two)
		}
		l.del(t, l.record("one"))
		if now := b.read("two"); now.Unchanged(two) {
			t.Errorf("%s: after another election was deleted: %+v; want its watch to begin anew, since it may have been this one", id, now)
		}
	}
}
