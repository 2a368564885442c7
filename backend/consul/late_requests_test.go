package consul

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// Requests that were delayed, and arrive after newer ones, change nothing.
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
	l.remove(t, l.record("x"))
	for _, r := range append(append(grants, renewals...), releases...) {
		r.again(t)
	}
	if pair, _, err := l.root.KV().Get(l.record("x"), nil); err != nil || pair != nil {
		t.Errorf("late requests have made a deleted record again: %v, %v", pair, err)
	}
}

// The answer to a bid is lost, and Release with term 0 follows. Then the process holds nothing.
func TestABidWithoutAnAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	proxy := agent.Proxy(t)
	a := l.node(t, "a", func(o *Options) { o.Address = proxy.Addr() })
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
}

// A first bid has read that there is no record, and arrives late: after another grant, whose record
// an operator has deleted. Only the meta item shows that.
func TestALateFirstBidGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"no record before", "a record before"} {
		t.Run(before, func(t *testing.T) {
			l := newLab(t, testbed.SharedConsul(t))
			a, b := l.node(t, "a"), l.node(t, "b")
			if before == "a record before" {
				a.win("other")
			}
			seen := b.observe("x")
			b.wire.interrupt(func() {
				a.win("x")
				l.remove(t, l.record("x"))
			})
			if got := b.bid(seen); got.Outcome == backend.Granted {
				t.Errorf("two leaders: a has just been granted x, and the first bid of b is granted: %+v", got.Lease)
			}
		})
	}
}

// The holder renews between a challenger's reading and its bid, which requires the holder's session
// as it was read.
func TestARenewalBeforeABidWins(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	seen := b.watched("x")
	b.wire.interrupt(func() { a.want("a renewal", a.renew(held)[0], backend.Granted) })
	b.want("a bid that arrives after a renewal", b.bid(seen), backend.Refused)
	a.want("the next renewal", a.renew(held)[0], backend.Granted)
}

// A program that keeps data in the same Consul makes each write depend on the lease.
func TestAFencedTransactionFailsAfterATakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.ttl, b.ttl = 8*time.Second, 8*time.Second
	held := a.win("x")
	put := func(n *node) bool {
		t.Helper()
		fence, err := n.Fence("x", held.Term)
		fatal(t, err)
		ok, _, _, err := l.root.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: l.prefix + "/data", Value: []byte("1")}}, nil)
		fatal(t, err)
		return ok
	}
	a.renew(held)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence")
	}
	fatal(t, b.Request(t.Context(), []backend.Request{{Election: "x", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.me.Nonce}}))
	if put(a) {
		t.Error("the page says that a request of an operator stops fenced writes until the next renewal")
	}
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence after the request and a renewal")
	}
	b.want("a takeover", b.bid(b.watched("x")), backend.Granted)
	if put(a) {
		t.Error("a write passed the fence of a past leadership")
	}
	if _, err := a.Fence("x", held.Term+1); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a fence of a term that is not held: %v, want ErrStale", err)
	}
}
