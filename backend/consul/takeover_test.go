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

// A lease that was watched for its TTL is taken in one transaction, though the holder's session lives.
// Nobody waits for Consul to end the session, or for its lock-delay.
func TestAWatchedLeaseIsTakenFromALiveSession(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	began := time.Now()
	got := b.bid(b.watched("x"))
	b.want("a bid for a watched lease", got, backend.Granted)
	if took := time.Since(began); took > labTTL+7*time.Second {
		t.Errorf("the takeover took %v at a TTL of %v", took, labTTL)
	}
	if s, _, err := l.root.Session().Info(a.session.get(), nil); err != nil || s == nil {
		t.Errorf("the previous holder's session: %v, %v; this test is about one that lives", s, err)
	}
	a.want("a renewal after that", a.renew(held)[0], backend.Refused)
}

// The holder renews between a challenger's last read and its bid. The bid depends on the holder's
// heartbeat key, and is refused.
func TestARenewalBeforeABidWins(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("x")
	seen := b.watched("x")
	// b prepares its bid as if it had read before the renewal.
	entries, err := b.read(t.Context(), []string{"x"}, true)
	fatal(t, err)
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	session, err := b.openSession(t.Context(), b.me, labTTL)
	fatal(t, err)
	o := &offer{entry: entries[0], next: seen.Term + 1, bid: backend.Bid{Election: "x", Candidate: b.me, TTL: labTTL, Renew: labTTL / 4}}
	o.prepare(session, time.Now())
	ok, answer, _, err := b.agent.Client.KV().Txn(b.grantOps(o, session), nil)
	if err != nil || ok {
		t.Fatalf("a grant over an earlier renewal: %v, %v; it must be refused", ok, err)
	}
	if text := answer.Errors[0].What; !strings.Contains(text, "index") {
		t.Errorf("it was refused for another reason: %s", text)
	}
	a.want("the next renewal", a.renew(held)[0], backend.Granted)
}

// A lease that was lost, or whose function hangs, is no longer renewed. It expires, though the process
// keeps its session and its other leases.
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
	b.want("a bid for the unrenewed lease", b.bid(first), backend.Granted)
	a.want("a renewal by its previous holder", a.renew(stuck)[0], backend.Refused)
	a.want("a renewal of another", a.renew(a.observe("x"))[0], backend.Granted)
}

// A program that keeps data in the same Consul makes each write depend on the lease.
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
		t.Error("a write passed the fence of a past leadership")
	}
	if _, err := a.Fence("x", held.Term+1); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a fence of a term that is not held: %v, want ErrStale", err)
	}
}
