package consul

import (
	"errors"
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
func TestAWatchedLeaseIsTakenFromALiveSession(t *testing.T) {
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
func TestARenewalBeforeABidWins(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	seen := b.watched("x")
	// What b would send now, if it had read before the renewal.
	entries, err := b.read(t.Context(), []string{"x"}, true)
	fatal(t, err)
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	session, err := b.openSession(t.Context(), b.me, labTTL)
	fatal(t, err)
	o := &offer{entry: entries[0], next: seen.Term + 1, bid: backend.Bid{Election: "x", Candidate: b.me, TTL: labTTL, Renew: labTTL / 4}}
	o.prepare(session, time.Now())
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
func TestAnUnrenewedLeaseExpiresOnALiveSession(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	stuck := a.win("stuck")
	for _, name := range []string{"x", "y", "z"} {
		a.win(name)
	}
	first := b.observe("stuck")
	end := time.Now().Add(first.ObserveFor)
	for time.Now().Before(end) {
		for _, answer := range a.renew(a.observe("x"), a.observe("y"), a.observe("z")) {
			a.want("a renewal of the others", answer, backend.Granted)
		}
		a.want("a renewal of one alone", a.renew(a.observe("y"))[0], backend.Granted)
		<-time.After(labTTL / 10)
	}
	b.want("a bid for what was not renewed", b.bid(first), backend.Granted)
	a.want("its renewal by who had it", a.renew(stuck)[0], backend.Refused)
	a.want("a renewal of another", a.renew(a.observe("x"))[0], backend.Granted)
}

// C10: whoever keeps data in the same Consul lets each write rest on the lease.
func TestAFencedTransactionFailsAfterATakeover(t *testing.T) {
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
