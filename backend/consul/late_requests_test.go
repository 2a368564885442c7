package consul

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Requests that were delayed, and arrive after newer ones under the same session, change nothing. See
// docs/design/consul.md, "Late requests".
func TestRequestsThatArriveLateChangeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	first := a.win("x")
	grants := a.wire.take()
	a.renew(first)
	renewals := a.wire.take()
	a.release(backend.Released, first)
	releases := a.wire.take()
	second := a.win("x")
	all := func(when string, late []sentRequest, term uint64, nonce string) {
		t.Helper()
		before := b.observe("x")
		for _, r := range late {
			if r.method == "PUT" && strings.Contains(r.url, "/txn") {
				r.again(t)
			}
		}
		if now := b.observe("x"); now.Term != term || string(now.Holder.Nonce) != nonce || !now.Unchanged(before) {
			t.Fatalf("after a late %s: %+v, want %+v", when, now, before)
		}
	}
	all("grant", grants, second.Term, string(a.me.Nonce))
	all("renewal", renewals, second.Term, string(a.me.Nonce))
	all("release", releases, second.Term, string(a.me.Nonce))
	a.want("a renewal after that", a.renew(second)[0], backend.Granted)
	a.release(backend.Released, second)
	all("grant of a lease that is vacant", grants, second.Term, "")
	third := b.win("x")
	all("grant of a lease that is another's", grants, third.Term, string(b.me.Nonce))
	all("release of a lease that is another's", releases, third.Term, string(b.me.Nonce))
}

// The answer to a bid is lost, and Release with term 0 follows. Then the process holds nothing, and a
// grant that is still on its way finds the record changed.
func TestABidWithoutAnAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	proxy := agent.Proxy(t)
	a := l.node(t, "a", func(o *Options) { o.Address, o.HTTPClient = proxy.Addr(), nil })
	b := l.node(t, "b")
	b.release(backend.Released, b.win("x")) // so that there is a record
	a.win("other")
	over := a.observe("x")
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
	if now := b.observe("x"); !now.Vacant() || now.ObserveFor != 0 {
		t.Errorf("after the release: %+v, want it vacant", now)
	}
	a.want("a renewal of its other lease", a.renew(a.observe("other"))[0], backend.Granted)

	// The same, but the grant arrives last. The second election was never led.
	for _, name := range []string{"x", "never led"} {
		late := l.node(t, "late "+name)
		entries, err := late.read(t.Context(), []string{name}, true)
		fatal(t, err)
		session, err := late.openSession(t.Context(), late.me, labTTL)
		fatal(t, err)
		late.enter(t.Context(), "acquire", late.me.Nonce)
		for range 2 { // the second time over what the first has left
			o := &offer{entry: entries[0], next: entries[0].lastTerm + 1, bid: backend.Bid{Election: name, Candidate: late.me, TTL: labTTL}}
			late.heartbeats.markPending([]*offer{o})
			o.prepare(session, time.Now())
			late.release(backend.Released, backend.Lease{Election: name})
			if ok, _, _, err := late.agent.Client.KV().Txn(late.grantOps(o, session), nil); ok || err != nil {
				t.Errorf("%s: a grant that arrives after a release with term 0: %v, %v, want it refused", name, ok, err)
			}
			entries, err = late.read(t.Context(), []string{name}, true)
			fatal(t, err)
		}
		b.release(backend.Released, b.win(name))
	}
}
