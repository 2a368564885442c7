package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Nobody waits for Consul to end a session or for its lock-delay: a lease that was
// watched for its TTL is taken though the holder's session lives, in one
// transaction.
func TestALeaseIsTakenFromALivingSessionOnceItWasWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	began := time.Now()
	got := b.bid(b.watched("x"))
	b.want("a bid over what was watched", got, backend.Granted)
	if took := time.Since(began); took > labTTL+7*time.Second {
		t.Errorf("the takeover took %v at a TTL of %v", took, labTTL)
	}
	if s, _, err := l.root.Session().Info(a.session.get(), nil); err != nil || s == nil {
		t.Errorf("the session of the holder before: %v, %v; this test is about one that lives", s, err)
	}
	a.want("a renewal after that", a.renew(held)[0], backend.Refused)
}

// Between the last look of a challenger and its bid the holder renews: the bid
// rests on the holder's heartbeat key, and is refused.
func TestARenewalThatIsOvertakenByABidWins(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	seen := b.watched("x")
	// What b would send now, if it had read before the renewal.
	entries, err := b.read(t.Context(), []string{"x"}, true)
	fatal(t, err)
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	session, err := b.open(t.Context(), b.me, labTTL)
	fatal(t, err)
	o := &offer{entry: entries[0], next: seen.Term + 1, bid: backend.Bid{Election: "x", Candidate: b.me, TTL: labTTL, Renew: labTTL / 4}}
	o.draw(session, time.Now())
	ok, answer, _, err := b.client.KV().Txn(b.grantOps(o, session), nil)
	if err != nil || ok {
		t.Fatalf("a grant over a renewal that came first: %v, %v; it must be refused", ok, err)
	}
	if text := answer.Errors[0].What; !strings.Contains(text, "index") {
		t.Errorf("it was refused for another reason: %s", text)
	}
	a.want("the next renewal", a.renew(held)[0], backend.Granted)
}

// A function that hangs, or a lease that was lost, is not renewed any more; the
// process and its session go on with what else they hold. The lease runs out.
func TestALeaseThatIsNotRenewedRunsOutThoughItsSessionGoesOn(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	stuck := a.win("stuck")
	for _, name := range []string{"x", "y", "z"} {
		a.win(name)
	}
	first := b.look("stuck")
	end := time.Now().Add(first.ObserveFor)
	for time.Now().Before(end) {
		for _, answer := range a.renew(a.look("x"), a.look("y"), a.look("z")) {
			a.want("a renewal of the others", answer, backend.Granted)
		}
		a.want("a renewal of one alone", a.renew(a.look("y"))[0], backend.Granted)
		<-time.After(labTTL / 10)
	}
	b.want("a bid for what was not renewed", b.bid(first), backend.Granted)
	a.want("its renewal by who had it", a.renew(stuck)[0], backend.Refused)
	a.want("a renewal of another", a.renew(a.look("x"))[0], backend.Granted)
}

// C5, C9, hazards 4 and 5: whoever deletes the lock key by hand frees nothing at
// once, since its holder may trust it for a TTL; the holder's next renewal is
// refused; and its session, which lives on, keeps nobody out.
func TestAKeyDeletedByHandIsWatchedAndTheHolderRefused(t *testing.T) {
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
			b.look(name) // of a key and record that are both deleted only who saw them knows
			fatal(t, delete(name))
			seen := b.look(name)
			if seen.ObserveFor < labTTL {
				t.Fatalf("free %v after it was deleted: %+v; want to be watched for %v", seen.ObserveFor, seen, labTTL)
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

// Hazard 9: a session that an operator destroys frees its keys after a lock-delay.
// Challengers watch a TTL all the same, and the holder's renewal is refused.
func TestASessionDestroyedByHandEndsTheLeadershipAndIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.ttl, b.ttl = 8*time.Second, 8*time.Second // a busy machine must not be too late to meet the lock-delay
	held := a.win("x")
	_, err := l.root.Session().Destroy(a.session.get(), nil)
	fatal(t, err)
	if seen := b.look("x"); seen.ObserveFor < a.ttl || seen.Vacant() {
		t.Errorf("after its session was destroyed the lease is %+v, want it watched for %v", seen, a.ttl)
	}
	early := b.bid(b.look("x"))
	b.want("a bid without watching", early, backend.Unknown) // the lock-delay of a TTL: Consul's own belt
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
		t.Error("who lost its session cannot win anything")
	}
}

// Hazard 8: requests that were held up on their way, and arrive after newer ones
// under the same session, change nothing.
func TestRequestsThatArriveLateChangeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	first := a.win("x")
	grants := a.way.take()
	a.renew(first)
	renewals := a.way.take()
	a.release(backend.Released, first)
	releases := a.way.take()
	second := a.win("x")
	all := func(when string, late []sentRequest, term uint64, nonce string) {
		t.Helper()
		before := b.look("x")
		for _, r := range late {
			if r.method == "PUT" && strings.Contains(r.url, "/txn") {
				r.again(t)
			}
		}
		if now := b.look("x"); now.Term != term || now.Holder.Nonce != nonce || !now.Unchanged(before) {
			t.Fatalf("after a late %s: %+v, want %+v", when, now, before)
		}
	}
	all("grant", grants, second.Term, a.me.Nonce)
	all("renewal", renewals, second.Term, a.me.Nonce)
	all("release", releases, second.Term, a.me.Nonce)
	a.want("a renewal after that", a.renew(second)[0], backend.Granted)
	a.release(backend.Released, second)
	all("grant of a lease that is vacant", grants, second.Term, "")
	third := b.win("x")
	all("grant of a lease that is another's", grants, third.Term, b.me.Nonce)
	all("release of a lease that is another's", releases, third.Term, b.me.Nonce)
}

// Hazard 14: a bid whose answer was lost, then a release of whatever it is: nothing
// is left, and a grant that is still on its way finds the record changed.
func TestABidWithoutAnAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	proxy := agent.Proxy(t)
	a := l.node(t, "a", func(o *Options) { o.Address, o.HTTPClient = proxy.Addr(), nil })
	b := l.node(t, "b")
	b.release(backend.Released, b.win("x")) // there is a record
	a.win("other")
	over := a.look("x")
	proxy.CutReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	answers, err := a.Acquire(ctx, []backend.Bid{{Election: "x", Candidate: a.me, TTL: labTTL, Renew: labTTL / 4, Expected: over}})
	if backend.Class(err) != backend.ErrUnavailable || len(answers) > 0 && answers[0].Outcome != backend.Unknown {
		t.Errorf("a bid without an answer: %v, %v, want an unknown outcome", answers, err)
	}
	proxy.CutReplies(false)
	proxy.Reset()
	a.release(backend.Released, backend.Lease{Election: "x"})
	if now := b.look("x"); !now.Vacant() || now.ObserveFor != 0 {
		t.Errorf("after its release: %+v, want it free", now)
	}
	a.want("a renewal of what else it holds", a.renew(a.look("other"))[0], backend.Granted)

	// The same, but the grant comes last of all. The second election was never led.
	for _, name := range []string{"x", "never led"} {
		late := l.node(t, "late "+name)
		entries, err := late.read(t.Context(), []string{name}, true)
		fatal(t, err)
		session, err := late.open(t.Context(), late.me, labTTL)
		fatal(t, err)
		late.enter(t.Context(), "acquire", late.me.Nonce)
		for range 2 { // also if what was left of the first time is all there is
			o := &offer{entry: entries[0], next: entries[0].last + 1, bid: backend.Bid{Election: name, Candidate: late.me, TTL: labTTL}}
			late.heartbeats.may([]*offer{o})
			o.draw(session, time.Now())
			late.release(backend.Released, backend.Lease{Election: name})
			if ok, _, _, err := late.client.KV().Txn(late.grantOps(o, session), nil); ok || err != nil {
				t.Errorf("%s: a grant that arrives after the release of whatever it is: %v, %v, want it refused", name, ok, err)
			}
			entries, err = late.read(t.Context(), []string{name}, true)
			fatal(t, err)
		}
		b.release(backend.Released, b.win(name))
	}
}

// Hazards 20 and 21: the servers' data are set back to a snapshot. Who has seen
// later terms does not take what is shown free for free, and terms go on.
func TestAStoreThatWasSetBackIsWatchedAndTermsGoOn(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{})
	l := newLab(t, agent)
	a, b := l.node(t, "a"), l.node(t, "b")
	old := a.win("x")
	a.release(backend.Released, old)
	saved, _, err := l.root.Snapshot().Save(nil)
	fatal(t, err)
	defer saved.Close()
	held := b.win("x")
	a.look("x")
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
		t.Fatalf("of a store that was set back: %+v; want it watched for %v", seen, labTTL)
	}
	b.want("a renewal of a grant that is gone", b.renew(held)[0], backend.Refused)
	got := a.bid(a.watched("x"))
	a.want("a bid after watching", got, backend.Granted)
	if got.Term <= held.Term {
		t.Errorf("term %d after %d, which the store has forgotten", got.Term, held.Term)
	}
}

// Hazard 31 and security: whatever is written into the keys, nothing panics,
// nothing is believed that was not watched, and the next grant mends it.
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
				seen := b.look(name)
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

// C10: whoever keeps data in the same Consul lets each write rest on the lease.
func TestAFencedTransactionFailsOnceTheLeaseIsAnothers(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	fence, err := a.Fence("x", held.Term)
	fatal(t, err)
	put := func() bool {
		ok, _, _, err := l.root.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: l.prefix + "/data", Value: []byte("1")}}, nil)
		fatal(t, err)
		return ok
	}
	a.renew(held)
	if !put() {
		t.Error("a write of the leader did not pass its fence")
	}
	b.want("a takeover", b.bid(b.watched("x")), backend.Granted)
	if put() {
		t.Error("a write passed the fence of a leadership that is over")
	}
	if _, err := a.Fence("x", held.Term+1); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a fence of a term that is not held: %v, want ErrStale", err)
	}
}
