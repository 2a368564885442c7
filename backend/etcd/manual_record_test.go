package etcd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// value returns the value of an existing key.
func (l *lab) value(t testing.TB, key string) string {
	t.Helper()
	kv := l.key(t, key)
	if kv == nil {
		t.Fatalf("%s does not exist", key)
	}
	return string(kv.Value)
}

// edit changes fields of a value; nil removes a field.
func edit(t testing.TB, text string, change map[string]any) string {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // terms are large
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for field, to := range change {
		if v[field] = to; to == nil {
			delete(v, field)
		}
	}
	return encode(v)
}

// The holder has just renewed its lease, and an operator overwrites the record. The lease is
// not free while the holder may trust it: not for a process that has read it, nor for one
// that starts later, nor for a former holder.
func TestOverwritingARecordFreesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	vacant := map[string]any{"id": nil, "nonce": nil, "ttl": nil, "renew": nil, "session": nil, "end": "released"}
	type records struct{ old, vacated, others, now string }
	for what, c := range map[string]struct {
		deleted bool // first
		written func(t *testing.T, r records) string
	}{
		"an earlier leadership":              {false, func(_ *testing.T, r records) string { return r.old }},
		"an earlier vacancy":                 {false, func(_ *testing.T, r records) string { return r.vacated }},
		"the record of another election":     {false, func(_ *testing.T, r records) string { return r.others }},
		"a short TTL":                        {false, func(t *testing.T, r records) string { return edit(t, r.now, map[string]any{"ttl": "10ms"}) }},
		"no holder":                          {false, func(t *testing.T, r records) string { return edit(t, r.now, vacant) }},
		"deleted, and an earlier leadership": {true, func(_ *testing.T, r records) string { return r.old }},
		"deleted, and an earlier vacancy":    {true, func(_ *testing.T, r records) string { return r.vacated }},
		"deleted, and no holder":             {true, func(t *testing.T, r records) string { return edit(t, r.now, vacant) }},
	} {
		t.Run(what, func(t *testing.T) {
			former, a, seer := l.node(t, "former"), l.node(t, "a"), l.node(t, "seer")
			x, y := "x "+what, "y "+what
			key := l.keys.record(x)
			first, r := former.lead(x), records{}
			r.old = l.value(t, key)
			release(t, former, first)
			r.vacated = l.value(t, key)
			former.lead(y)
			r.others = l.value(t, l.keys.record(y))
			held := a.lead(x)
			former.read(x)
			seer.read(x)
			held = a.mustRenew(held)
			if r.now = l.value(t, key); c.deleted {
				l.del(t, key)
			}
			l.put(t, key, c.written(t, r))
			for _, n := range []*node{former, seer, l.node(t, "late")} {
				got := n.read(x)
				if got.ObserveFor < held.TTL {
					t.Errorf("a trusts its lease for %v, but %s must watch it for %v only: %+v", held.TTL, n.me.ID, got.ObserveFor, got)
				}
				if got.ObserveFor > 0 {
					continue
				}
				if won, err := n.bid(got, ttl); won.Outcome == backend.Granted {
					t.Fatalf("%s was granted term %d (%v) while a trusts term %d", n.me.ID, won.Term, err, held.Term)
				}
			}
		})
	}
}

// The holder of an election does not renew a copy of its record in another election.
func TestACopiedRecordExpires(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	x, y := a.lead("x"), c.lead("y")
	l.put(t, l.keys.record("x"), l.value(t, l.keys.record("y")))
	a.mustRefuse(x, "whose record was overwritten")
	seen := b.read("x")
	for range 3 {
		y = c.mustRenew(y)
		if now := b.read("x"); !now.Unchanged(seen) {
			t.Fatalf("no one can ever take over x while c leads y: %+v, then %+v", seen, now)
		}
	}
	b.mustTakeOver(seen)
	c.mustRenew(y)
}

// An operator deletes the layout key, as docs/etcd.md says. The next write creates it again
// and counts the existing records, so that a later deletion shows.
func TestALostLayoutKeyIsRebuilt(t *testing.T) {
	t.Parallel()
	for how, write := range map[string]func(t *testing.T, a, b *node, more backend.Lease){
		"a new election": func(_ *testing.T, _, b *node, _ backend.Lease) { b.lead("new") },
		"an election that is there": func(t *testing.T, a, b *node, more backend.Lease) {
			release(t, a, more)
			b.lead("more")
		},
		"a release of what may be on its way": func(t *testing.T, _, b *node, _ backend.Lease) {
			b.markPending([]change{{&entry{Lease: backend.Lease{Election: "new"}}, &record{}}})
			release(t, b, backend.Lease{Election: "new"})
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			held, more := a.lead("jobs"), a.lead("more")
			b.lead("others")
			l.del(t, l.keys.layout())
			write(t, a, b, more)
			held = a.mustRenew(held)
			l.del(t, l.keys.record("jobs"))
			late := l.node(t, "late")
			if got := late.read("jobs"); got.ObserveFor < held.TTL {
				won, err := late.bid(got, ttl)
				t.Errorf("late sees %+v, bids: %v in term %d, %v, while a trusts term %d", got, won.Outcome, won.Term, err, held.Term)
			}
		})
	}
}

// If nothing in the store shows that a record was deleted, a process that starts afterwards
// cannot know. A process that has read the record knows, and watches for its TTL.
func TestADeletedRecordIsRemembered(t *testing.T) {
	t.Parallel()
	for how, hide := range map[string]func(t *testing.T, l *lab){
		"a copy stands beside it": func(t *testing.T, l *lab) {
			l.put(t, l.keys.record("jobs.bak"), l.value(t, l.keys.record("jobs")))
			l.del(t, l.keys.record("jobs"))
		},
		"all is deleted": func(t *testing.T, l *lab) {
			if _, err := l.admin.Delete(t.Context(), l.prefix, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			const long = time.Minute // longer than what b bids with
			if won, err := a.bid(a.read("jobs"), long); err != nil || won.Outcome != backend.Granted {
				t.Fatal(won.Outcome, err)
			}
			b.read("jobs")
			b.lead("others")
			hide(t, l)
			if over := b.read("jobs"); over.ObserveFor < long {
				t.Errorf("b sees %+v; a trusts its lease for %v", over, long)
			}
		})
	}
}

// A release stops a bid that may still be on its way by writing the request once more, even
// if the request is as large as etcd accepts.
func TestAHugeRequestDoesNotBlockRelease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.lead("other")
	held := b.lead("jobs")
	a.markPending([]change{{&entry{Lease: backend.Lease{Election: "jobs"}}, &record{}}})
	l.put(t, l.keys.request("jobs"), strings.Repeat("x", 3<<19-len(l.keys.request("jobs"))-60))
	before := l.key(t, l.keys.request("jobs")).ModRevision
	if err := a.release(backend.Lease{Election: "jobs"}, backend.Released); err != nil {
		t.Fatalf("%.300v", err)
	}
	if now := l.key(t, l.keys.request("jobs")).ModRevision; now == before {
		t.Error("the request was not written: the late bid would be granted")
	}
	b.mustRenew(held)
}
