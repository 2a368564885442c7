package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

func (l *lab) value(t *testing.T, key string) string {
	t.Helper()
	pair, _, err := l.root.KV().Get(key, nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", key, pair, err)
	}
	return string(pair.Value)
}

// put writes a value as an operator does: the lock on the key stays as it is.
func (l *lab) put(t *testing.T, key, value string) {
	t.Helper()
	_, err := l.root.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil)
	fatal(t, err)
}

func (l *lab) remove(t *testing.T, key string) {
	t.Helper()
	_, err := l.root.KV().Delete(key, nil)
	fatal(t, err)
}

// edit changes one field of a value; nil removes it.
func edit(t *testing.T, text, field string, to any) string {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	fatal(t, d.Decode(&v))
	if v[field] = to; to == nil {
		delete(v, field)
	}
	out, err := json.Marshal(v)
	fatal(t, err)
	return string(out)
}

// An operator edits the keys of a lease whose holder has just renewed. Until the holder's trust ends,
// the lease is free for nobody: not for a member that has read it before, not for one that reads it
// first, and not for the previous holder.
func TestManuallyEditedKeysFreeNoLease(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	for what, change := range map[string]func(lock, term, old, others, vacant string){
		"the lock of an earlier leadership": func(lock, _, old, _, _ string) { l.put(t, lock, old) },
		"the lock of another election":      func(lock, _, _, others, _ string) { l.put(t, lock, others) },
		"a lock without a session":          func(lock, _, _, _, _ string) { l.put(t, lock, edit(t, l.value(t, lock), "session", nil)) },
		"a short TTL":                       func(lock, _, _, _, _ string) { l.put(t, lock, edit(t, l.value(t, lock), "ttl_us", 10)) },
		"a short TTL, and no record": func(lock, term, _, _, _ string) {
			l.put(t, lock, edit(t, l.value(t, lock), "ttl_us", 10))
			l.remove(t, term)
		},
		"a record with a short TTL, and no lock": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "ttl_us", 10))
			l.remove(t, lock)
		},
		"a record without a TTL, and no lock": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "ttl_us", nil))
			l.remove(t, lock)
		},
		"a record with an unknown end": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "end", "unknown"))
			l.remove(t, lock)
		},
		"a record that ended, and no lock": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "end", "released"))
			l.remove(t, lock)
		},
		"an invalid lock, recreated, and no record": func(lock, term, _, _, _ string) { l.remove(t, lock); l.remove(t, term); l.put(t, lock, "mine") },
		"a vacant lock, recreated, and no record":   func(lock, term, _, _, vacant string) { l.remove(t, lock); l.remove(t, term); l.put(t, lock, vacant) },
	} {
		t.Run(what, func(t *testing.T) {
			former, a, observer := l.node(t, "former"), l.node(t, "a"), l.node(t, "observer")
			x, y := "x "+what, "y "+what
			before := former.win(x)
			old := l.value(t, l.keys.lock+x)
			former.release(backend.Released, before)
			vacant := l.value(t, l.keys.lock+x)
			former.win(y)
			others := l.value(t, l.keys.lock+y)
			a.ttl = 10 * time.Second
			held := a.win(x)
			former.observe(x)
			observer.observe(x)
			a.want("a renewal", a.renew(held)[0], backend.Granted)
			change(l.keys.lock+x, l.keys.term+x, old, others, vacant)
			for _, n := range []*node{former, observer, l.node(t, "late")} {
				if got := n.observe(x); got.ObserveFor < held.TTL {
					t.Errorf("two leaders: a trusts its lease for %v, and %s watches it for only %v: %+v", held.TTL, n.me.ID, got.ObserveFor, got)
				}
			}
		})
	}
}

// A lock was overwritten with a copy of another election's lock. Neither its own holder nor the holder
// of the other election renews it, so it expires.
func TestACopiedLockExpires(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	x, y := a.win("x"), c.win("y")
	l.put(t, l.keys.lock+"x", l.value(t, l.keys.lock+"y"))
	a.want("a renewal of the overwritten lock", a.renew(x)[0], backend.Refused)
	a.release(backend.Failed, x)
	seen := b.observe("x")
	for range 3 {
		c.want("a renewal of the other election", c.renew(y)[0], backend.Granted)
		if now := b.observe("x"); !now.Unchanged(seen) {
			t.Fatalf("nobody can ever take x while c leads y: %+v, then %+v", seen, now)
		}
	}
}

// A holder of more than 31 leases may trust a lease for another TTL before it looks for manual edits.
func TestARecreatedLockIsWatchedForTwoTTLs(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.winAll(manyLeases, "e")
	for name, session := range map[string]any{"e0003": nil, "e0004": strings.Repeat("a", 65), "e0005": "a/b"} {
		value := edit(t, l.value(t, l.keys.lock+name), "session", session)
		l.remove(t, l.keys.lock+name)
		l.put(t, l.keys.lock+name, value)
		if got := b.observe(name); got.ObserveFor < 2*manyTTL {
			t.Errorf("the lock of %s, recreated with the session %v, is watched for %v, want two TTLs of %v", name, session, got.ObserveFor, manyTTL)
		}
	}
}

// A lock key that was deleted manually is not free at once, since its holder may trust the lease for a
// TTL. The holder's next renewal is refused, and its session, which lives on, keeps nobody out. See
// docs/design/consul.md, "Manual edits".
func TestAManuallyDeletedKeyIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	for what, delete := range map[string]func(name string) error{
		"lock": func(name string) error { _, err := l.root.KV().Delete(l.keys.lock+name, nil); return err },
		"both": func(name string) error {
			_, err := l.root.KV().Delete(l.keys.lock+name, nil)
			_, err2 := l.root.KV().Delete(l.keys.term+name, nil)
			return errors.Join(err, err2)
		},
		"unlocked": func(name string) error {
			pair, _, err := l.root.KV().Get(l.keys.lock+name, nil)
			if err == nil {
				_, _, err = l.root.KV().Release(pair, nil)
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "x " + what
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.win(name)
			other := a.win("other " + what)
			b.observe(name) // if lock and record are both deleted, only a member that has read them knows
			fatal(t, delete(name))
			seen := b.observe(name)
			if seen.ObserveFor < labTTL {
				t.Fatalf("watched for %v after the deletion: %+v; want %v", seen.ObserveFor, seen, labTTL)
			}
			a.want("a renewal after that", a.renew(held)[0], backend.Refused)
			a.want("a renewal of another election", a.renew(other)[0], backend.Granted)
			got := b.bid(b.watched(name))
			b.want("a bid after watching", got, backend.Granted)
			if got.Term <= held.Term {
				t.Errorf("term %d after %d", got.Term, held.Term)
			}
			a.release(backend.Failed, held)
			b.want("a renewal of the later grant", b.renew(got.Lease)[0], backend.Granted)
		})
	}
}

// Consul frees the keys of a destroyed session after the lock-delay. Challengers watch for a TTL
// nevertheless, and the holder's renewal is refused. See docs/design/consul.md, "Hazards".
func TestADestroyedSessionEndsTheLeadership(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.ttl, b.ttl = 8*time.Second, 8*time.Second // so that the lock-delay still runs on a busy machine
	held := a.win("x")
	_, err := l.root.Session().Destroy(a.session.get(), nil)
	fatal(t, err)
	if seen := b.observe("x"); seen.ObserveFor < a.ttl || seen.Vacant() {
		t.Errorf("after its session was destroyed the lease is %+v, want it watched for %v", seen, a.ttl)
	}
	early := b.bid(b.observe("x"))
	b.want("a bid without watching", early, backend.Unknown) // Consul's lock-delay of a TTL
	if !errors.Is(early.Err, backend.ErrUnavailable) {
		t.Errorf("a bid while the lock-delay runs: %v, want ErrUnavailable", early.Err)
	}
	a.want("a renewal", a.renew(held)[0], backend.Refused)
	over := b.watched("x")
	var got backend.Answer
	testbed.Eventually(t, time.Minute, "a grant after watching", func() error {
		if got = b.bid(over); got.Outcome != backend.Granted {
			return fmt.Errorf("%v: %v", got.Outcome, got.Err)
		}
		return nil
	})
	if again := a.win("y"); again.Term == 0 {
		t.Error("a member that has lost its session cannot win")
	}
}

// The servers are restored from a snapshot. A member that has read later terms watches the lease, and
// its next term exceeds them. See docs/design/consul.md, "Deleted keys and restored snapshots".
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
}

// Arbitrary values in the keys cause no panic. The lease is watched, and the next grant repairs
// the keys.
func TestGarbageInTheKeysIsHarmless(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	for i, text := range []string{"", "{", "null", "[]", `{"term":-1}`, `{"term":18446744073709551615,"holder":{"nonce":"x"},"ttl_us":9223372036854775807}`,
		`{"term":7,"holder":{"nonce":"` + strings.Repeat("n", 5000) + `","id":"\u202e"},"session":"../../x","ttl_us":-5}`, strings.Repeat("x", 400<<10)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("x", i)
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.win(name)
			for _, key := range []string{l.keys.lock + name, l.keys.term + name, l.keys.heartbeat + a.session.get()} {
				_, err := l.root.KV().Put(&api.KVPair{Key: key, Value: []byte(text)}, nil)
				fatal(t, err)
				seen := b.observe(name)
				if seen.ObserveFor <= 0 {
					t.Fatalf("with %.50q in %s: %+v, want it watched", text, key, seen)
				}
				a.want("a renewal after that", a.renew(held)[0], backend.Refused)
			}
			if _, err := b.List(t.Context(), "", 1000); err != nil {
				t.Error(err)
			}
			if _, err := b.Members(t.Context(), "", 1000); err != nil {
				t.Error(err)
			}
		})
	}
}
