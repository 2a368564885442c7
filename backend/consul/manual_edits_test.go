package consul

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/consulagent"
	"github.com/go-election/go-election/lab/testbed"
)

// pair reads a key.
func (l *lab) pair(t *testing.T, key string) *api.KVPair {
	t.Helper()
	pair, _, err := l.root.KV().Get(key, nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", key, pair, err)
	}
	return pair
}

// put writes a key as an operator does; flags 0 is what "consul kv put" writes.
func (l *lab) put(t *testing.T, key string, value []byte, flags uint64) {
	t.Helper()
	_, err := l.root.KV().Put(&api.KVPair{Key: key, Value: value, Flags: flags}, nil)
	fatal(t, err)
}

func (l *lab) remove(t *testing.T, key string) {
	t.Helper()
	_, err := l.root.KV().Delete(key, nil)
	fatal(t, err)
}

// edited returns a value with other fields; nil removes one.
func edited(t *testing.T, text []byte, fields map[string]any) []byte {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	fatal(t, d.Decode(&v))
	for name, to := range fields {
		if v[name] = to; to == nil {
			delete(v, name)
		}
	}
	out, err := json.Marshal(v)
	fatal(t, err)
	return out
}

// An operator edits the record of a lease whose holder has just renewed. Until the holder's trust
// ends, the lease is free for nobody: not for a member that has read it before, not for one that
// reads it first, and not for the previous holder. The holder's next renewal is refused.
func TestManuallyEditedKeysFreeNoLease(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	type records struct{ now, old, vacant, others *api.KVPair } // of the leadership before, of its end, of another election
	edit := func(fields map[string]any) func(*testing.T, string, records) {
		return func(t *testing.T, key string, r records) { l.put(t, key, edited(t, r.now.Value, fields), r.now.Flags) } // as the UI does
	}
	vacant := map[string]any{"id": nil, "nonce": nil}
	for what, change := range map[string]func(*testing.T, string, records){
		"a short TTL":         edit(map[string]any{"ttl": "1ms"}),
		"no holder":           edit(vacant),
		"no session":          edit(map[string]any{"session": nil}),
		"rewritten as it was": func(t *testing.T, key string, r records) { l.put(t, key, append(r.now.Value, ' '), r.now.Flags) },
		"written by the command line": func(t *testing.T, key string, r records) {
			l.put(t, key, edited(t, r.now.Value, vacant), 0)
		},
		"an earlier leadership, put back": func(t *testing.T, key string, r records) { l.put(t, key, r.old.Value, r.old.Flags) },
		"a vacancy, put back":             func(t *testing.T, key string, r records) { l.put(t, key, r.vacant.Value, r.vacant.Flags) },
		"the record of another election":  func(t *testing.T, key string, r records) { l.put(t, key, r.others.Value, r.others.Flags) },
		"deleted":                         func(t *testing.T, key string, _ records) { l.remove(t, key) },
		"deleted, and made by hand": func(t *testing.T, key string, r records) {
			l.remove(t, key)
			l.put(t, key, edited(t, r.now.Value, vacant), r.now.Flags)
		},
		"deleted, and a copy of another election's": func(t *testing.T, key string, r records) {
			l.remove(t, key)
			l.put(t, key, r.others.Value, r.others.Flags)
		},
	} {
		t.Run(what, func(t *testing.T) {
			former, a, observer := l.node(t, "former"), l.node(t, "a"), l.node(t, "observer")
			x, y := "x "+what, "y "+what
			var r records
			before := former.win(x)
			r.old = l.pair(t, l.record(x))
			former.release(backend.Released, before)
			r.vacant = l.pair(t, l.record(x))
			former.release(backend.Released, former.win(y))
			r.others = l.pair(t, l.record(y))
			a.ttl = 10 * time.Second
			held := a.win(x)
			r.now = l.pair(t, l.record(x))
			former.observe(x)
			observer.observe(x)
			a.want("a renewal", a.renew(held)[0], backend.Granted)
			change(t, l.record(x), r)
			for _, n := range []*node{former, observer, l.node(t, "late")} {
				if got := n.observe(x); got.ObserveFor < held.TTL {
					t.Errorf("two leaders: a trusts its lease for %v, and %s watches it for only %v: %+v", held.TTL, n.me.ID, got.ObserveFor, got)
				}
			}
			a.want("the next renewal", a.renew(held)[0], backend.Refused)
		})
	}
}

// A record that was deleted is not free at once, since its holder may trust the lease for a TTL. The
// holder's next renewal is refused.
func TestAManuallyDeletedKeyIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held, other := a.win("x"), a.win("other")
	l.remove(t, l.record("x"))
	if seen := b.observe("x"); seen.ObserveFor < labTTL {
		t.Fatalf("watched for %v after the deletion: %+v; want %v", seen.ObserveFor, seen, labTTL)
	}
	answers := a.renew(held, other)
	a.want("a renewal after that", answers[0], backend.Refused)
	a.want("a renewal of another election", answers[1], backend.Granted)
	got := b.bid(b.watched("x"))
	b.want("a bid after watching", got, backend.Granted)
	if got.Term <= held.Term {
		t.Errorf("term %d after %d", got.Term, held.Term)
	}
	a.release(backend.Failed, held)
	b.want("a renewal of the later grant", b.renew(got.Lease)[0], backend.Granted)
}

// A session that was deleted frees nothing, and its holder goes on under another one.
func TestADeletedSessionEndsNoLeadership(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	l.remove(t, l.session(a.me.Nonce))
	if seen := b.observe("x"); seen.ObserveFor < labTTL || seen.Vacant() {
		t.Errorf("after its session was deleted the lease is %+v, want it watched for %v", seen, labTTL)
	}
	got := a.renew(held)[0]
	a.want("a renewal", got, backend.Granted)
	if got.Term != held.Term {
		t.Errorf("term %d after %d", got.Term, held.Term)
	}
}

// The servers are restored from a snapshot. A member that has read later terms watches the lease, and
// its next term exceeds them.
func TestARestoredStoreIsWatchedAndTermsGrow(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{})
	l := newLab(t, agent)
	a, b := l.node(t, "a"), l.node(t, "b")
	old := a.win("x")
	a.release(backend.Released, old)
	saved, _, err := l.root.Snapshot().Save(nil)
	fatal(t, err)
	defer saved.Close()
	held := b.win("x")
	a.observe("x")
	fatal(t, l.root.Snapshot().Restore(nil, saved))
	var seen backend.Lease
	testbed.Eventually(t, time.Minute, "the lease as it was", func() error {
		ctx, cancel := a.ctx()
		defer cancel()
		now, err := a.Observe(ctx, []backend.Lease{{Election: "x"}})
		if err != nil || len(now) != 1 || now[0].Term != old.Term {
			return fmt.Errorf("it is %+v, %w", now, err)
		}
		seen = now[0]
		return nil
	})
	if seen.ObserveFor < labTTL {
		t.Fatalf("after the restore: %+v; want it watched for %v", seen, labTTL)
	}
	b.want("a renewal of a lost grant", b.renew(held)[0], backend.Refused)
	got := a.bid(a.watched("x"))
	a.want("a bid after watching", got, backend.Granted)
	if got.Term <= held.Term {
		t.Errorf("term %d after %d, which the store has lost", got.Term, held.Term)
	}
	a.want("a renewal after that", a.renew(got.Lease)[0], backend.Granted)
	if now := b.observe("x"); now.ObserveFor != labTTL {
		t.Errorf("what was written after the restore is watched for %v, want %v", now.ObserveFor, labTTL)
	}
}

// Arbitrary values in the keys cause no panic. The lease is watched, and the next grant repairs
// the keys.
func TestGarbageInTheKeysIsHarmless(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	for i, text := range []string{"", "{", "null", "[]", `{"term":-1}`, `{"term":18446744073709551615,"nonce":"x","ttl":"2562047h"}`,
		`{"term":7,"nonce":"` + strings.Repeat("n", 5000) + `","id":"\u202e","session":"../../x","ttl":"-5s"}`, strings.Repeat("x", 400<<10)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("x", i)
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.win(name)
			l.put(t, l.record(name), []byte(text), 0)
			if seen := b.observe(name); seen.ObserveFor < labTTL {
				t.Fatalf("with %.50q in the record: %+v, want it watched", text, seen)
			}
			a.want("a renewal after that", a.renew(held)[0], backend.Refused)
			a.release(backend.Failed, held)
			l.put(t, l.session(a.me.Nonce), []byte(text), 0)
			if _, err := b.List(t.Context(), "", 1000); err != nil {
				t.Error(err)
			}
			if _, err := b.Members(t.Context(), "", 1000); err != nil {
				t.Error(err)
			}
		})
	}
	a, b := l.node(t, "a"), l.node(t, "b")
	a.win("x")
	l.put(t, l.prefix+"/meta", []byte("garbage"), 0)
	b.win("y")
}

// Any key is an item that can be written again.
func FuzzItem(f *testing.F) {
	for _, text := range []string{"", "null", "[]", "\xff\x00", `{"term":18446744073709551615,"ttl":"-1s","heartbeat":"0"}`,
		`{"election":"jobs","term":6,"elected":"9999-12-31T23:59:59-23:59","history":[{},{"id":"\u0000","from":"0000-01-01T00:00:00+23:59"}]}`,
		`{"id":"a","nonce":"n","heartbeat":"9","apart":{"jobs":"0","":"1"},"at":"2026-01-02T03:04:05+24:00"}`} {
		f.Add([]byte(text), uint64(7), uint64(0))
	}
	d := newDriver(&consulagent.Agent{Prefix: "election"})
	f.Fuzz(func(t *testing.T, text []byte, created, flags uint64) {
		for _, k := range []lease.Key{{Kind: lease.Records, Name: "jobs"}, {Kind: lease.Sessions, Name: "0123"}, {Kind: lease.Metas}} {
			it := d.item(k, &api.KVPair{Key: d.key(k), Value: text, ModifyIndex: 7, CreateIndex: created, Flags: flags})
			if it.Version != "7" || k.Kind == lease.Records && !it.Edited && (created != 7 || flags != checksum(d.key(k), text)) {
				t.Errorf("%q is read as %+v", text, it)
			}
			if it.Value != nil && lease.Decode(k.Kind, []byte(lease.Encode(it.Value))) == nil {
				t.Errorf("%q is written as %s, which is invalid", text, lease.Encode(it.Value))
			}
		}
	})
}

// Times in a record that was edited manually are part of what is written next. So times that
// cannot be encoded must not be kept.
func TestATimeThatCannotBeWrittenIsNotKept(t *testing.T) {
	for _, bad := range []string{"2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"} {
		text := fmt.Appendf(nil, `{"election":"jobs","term":7,"id":"a","nonce":"n","elected":%q,"written":%q,"history":[{"term":6,"id":"b","from":%q,"to":%q}]}`, bad, bad, bad, bad)
		if v := lease.Decode(lease.Records, text); v != nil {
			lease.Encode(v) // panics if it cannot
		}
	}
}

// A heartbeat that a challenger has watched is put back after a later one. It is not the same again.
func TestAHeartbeatThatWasPutBackIsNotTheSame(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	seen, session := b.observe("x"), l.pair(t, l.session(a.me.Nonce))
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	l.put(t, session.Key, session.Value, session.Flags)
	for range 2 {
		if now := b.observe("x"); now.Unchanged(seen) {
			t.Fatalf("two leaders: a has renewed since b saw %+v, and b sees the same again", seen)
		}
	}
	a.want("the next renewal", a.renew(held)[0], backend.Granted)
}
