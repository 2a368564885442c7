package etcd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

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
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
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
			key := l.record(x)
			first, r := former.lead(x), records{}
			r.old = l.value(t, key)
			former.mustRelease(first)
			r.vacated = l.value(t, key)
			former.lead(y)
			r.others = l.value(t, l.record(y))
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
	l.put(t, l.record("x"), l.value(t, l.record("y")))
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

// An operator deletes the meta key, as docs/etcd.md says. The next write creates it again
// and counts the existing records, so that a later deletion shows.
func TestALostMetaKeyIsRebuilt(t *testing.T) {
	t.Parallel()
	for how, write := range map[string]func(t *testing.T, a, b *node, more backend.Lease){
		"a new election": func(_ *testing.T, _, b *node, _ backend.Lease) { b.lead("new") },
		"an election that is there": func(t *testing.T, a, b *node, more backend.Lease) {
			a.mustRelease(more)
			b.mustTakeOver(b.read("more"))
			b.lead("new")
		},
		"a release of what may be on its way": func(_ *testing.T, _, b *node, _ backend.Lease) {
			b.lead("own") // so that it has a session
			b.losesBid(b.read("new"))
			b.mustRelease(backend.Lease{Election: "new"})
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			held, more := a.lead("jobs"), a.lead("more")
			b.lead("others")
			l.del(t, l.meta())
			write(t, a, b, more)
			held = a.mustRenew(held)
			l.del(t, l.record("jobs"))
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
			l.put(t, l.record("jobs.bak"), l.value(t, l.record("jobs")))
			l.del(t, l.record("jobs"))
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
