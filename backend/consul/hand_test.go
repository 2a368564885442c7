package consul

import (
	"encoding/json"
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

// put writes a value as people do: the lock on the key stays as it is.
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

// edit changes one field of a value; nil: takes it away.
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

// What people write into the keys of a lease frees it for nobody before its holder, who
// has just renewed, trusts it no more: neither for who has seen it, nor for who comes later,
// nor for who had it before.
func TestWhatPeopleWriteIntoTheKeysOfALeaseFreesItForNobody(t *testing.T) {
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
		"a record that ended in no known way": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "end", "odd"))
			l.remove(t, lock)
		},
		"a record that ended, and no lock": func(lock, term, _, _, _ string) {
			l.put(t, term, edit(t, l.value(t, term), "end", "released"))
			l.remove(t, lock)
		},
		"a lock that is none, made again, no record": func(lock, term, _, _, _ string) { l.remove(t, lock); l.remove(t, term); l.put(t, lock, "mine") },
		"a vacant lock, made again, and no record":   func(lock, term, _, _, vacant string) { l.remove(t, lock); l.remove(t, term); l.put(t, lock, vacant) },
	} {
		t.Run(what, func(t *testing.T) {
			former, a, seer := l.node(t, "former"), l.node(t, "a"), l.node(t, "seer")
			x, y := "x "+what, "y "+what
			before := former.win(x)
			old := l.value(t, l.keys.lock+x)
			former.release(backend.Released, before)
			vacant := l.value(t, l.keys.lock+x)
			former.win(y)
			others := l.value(t, l.keys.lock+y)
			a.ttl = 10 * time.Second
			held := a.win(x)
			former.look(x)
			seer.look(x)
			a.want("a renewal", a.renew(held)[0], backend.Granted)
			change(l.keys.lock+x, l.keys.term+x, old, others, vacant)
			for _, n := range []*node{former, seer, l.node(t, "late")} {
				if got := n.look(x); got.ObserveFor < held.TTL {
					t.Errorf("two leaders: a trusts its lease for %v, and %s need not watch it for more than %v: %+v", held.TTL, n.me.ID, got.ObserveFor, got)
				}
			}
		})
	}
}

// Its own holder does not renew it: that is what the watch is for. Nor does who holds the
// election that it was copied from.
func TestALockThatWasCopiedRunsOut(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	x, y := a.win("x"), c.win("y")
	l.put(t, l.keys.lock+"x", l.value(t, l.keys.lock+"y"))
	a.want("a renewal of what was written over", a.renew(x)[0], backend.Refused)
	a.release(backend.Failed, x)
	seen := b.look("x")
	for range 3 {
		c.want("a renewal of the other election", c.renew(y)[0], backend.Granted)
		if now := b.look("x"); !now.Unchanged(seen) {
			t.Fatalf("nobody can ever take x while c leads y: %+v, then %+v", seen, now)
		}
	}
}

// With more than 31 leases a holder may trust another TTL before it looks.
func TestALockThatWasMadeAgainWithoutItsSessionIsWatchedForTwoTTLs(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.winAll(crowd, "e")
	for name, session := range map[string]any{"e0003": nil, "e0004": strings.Repeat("a", 65), "e0005": "a/b"} {
		value := edit(t, l.value(t, l.keys.lock+name), "session", session)
		l.remove(t, l.keys.lock+name)
		l.put(t, l.keys.lock+name, value)
		if got := b.look(name); got.ObserveFor < 2*crowdTTL {
			t.Errorf("the lock of %s made again with the session %v: Watch %v, want two TTLs of %v", name, session, got.ObserveFor, crowdTTL)
		}
	}
}

// What was not granted because of a missing right does not hide that the session has
// ended, by which the others would be.
func TestADeniedBidDoesNotHideThatTheSessionHasEnded(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true, SessionTTLMin: time.Second})
	l := newLab(t, agent)
	rules := fmt.Sprintf("key_prefix %q { policy = \"write\" }\nsession_prefix \"\" { policy = \"write\" }\nkey_prefix %q { policy = \"read\" }", l.prefix+"/", l.keys.term+"no")
	n := l.node(t, "n", func(o *Options) { o.Token = token(t, l.root, rules).SecretID })
	_, err := n.Backend.open(t.Context(), n.me, n.ttl)
	fatal(t, err)
	_, err = l.root.Session().Destroy(n.session.get(), nil)
	fatal(t, err)
	var bids []backend.Bid
	for _, name := range []string{"no", "yes"} {
		bids = append(bids, backend.Bid{Election: name, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: n.look(name)})
	}
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, bids)
	fatal(t, err)
	if answers[1].Outcome != backend.Granted || backend.Class(answers[0].Err) != backend.ErrDenied {
		t.Errorf("after the end of the session: %v, %v, and of what was denied: %v; want granted, and denied", answers[1].Outcome, answers[1].Err, answers[0].Err)
	}
}
