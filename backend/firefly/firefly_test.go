package firefly

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/internal/consulagent"
	"github.com/go-election/go-election/lab/testbed"
)

// A node is a Backend without a manager, and its candidate.
type node struct {
	*Backend
	lab  *lab
	t    *testing.T
	me   backend.Candidate
	wire *wire
}

func (l *lab) node(t *testing.T, id string) *node {
	t.Helper()
	n := &node{lab: l, t: t, me: backend.Candidate{ID: id, Nonce: backend.NewNonce()}, wire: new(wire)}
	n.Backend = l.open(t, consul.Options{Address: l.agent.URL()})
	n.wire.next, n.agent.Transport.Next = n.agent.Transport.Next, n.wire
	return n
}

func (n *node) observe() backend.Lease {
	n.t.Helper()
	seen, err := n.Observe(n.t.Context(), []backend.Lease{{Election: "x"}})
	if err != nil || len(seen) != 1 {
		n.t.Fatalf("%s observes: %v, %v", n.me.ID, seen, err)
	}
	return seen[0]
}

func (n *node) bid(over backend.Lease) backend.Answer {
	n.t.Helper()
	answers, err := n.Acquire(n.t.Context(), []backend.Bid{{Election: "x", Candidate: n.me, TTL: labTTL, Renew: labTTL / 3, Expected: over}})
	fatal(n.t, err)
	return answers[0]
}

func (n *node) renew(held backend.Lease) backend.Answer {
	n.t.Helper()
	answers, err := n.Renew(n.t.Context(), []backend.Held{held.Held()})
	fatal(n.t, err)
	return answers[0]
}

func (n *node) want(what string, got backend.Answer, outcome backend.Outcome) {
	n.t.Helper()
	if got.Outcome != outcome {
		n.t.Fatalf("%s: %v (%v) with %+v, want %v", what, got.Outcome, got.Err, got.Lease, outcome)
	}
}

// foreign makes a session like that of a FireflySoft member, but without a check.
func (l *lab) foreign(t *testing.T) string {
	t.Helper()
	id, _, err := l.root.Session().CreateNoChecks(&api.SessionEntry{LockDelay: quick.FailoverDelay}, nil)
	fatal(t, err)
	t.Cleanup(func() { l.root.Session().Destroy(id, nil) })
	return id
}

// acquire locks the key in FireflySoft's way.
func (n *node) acquire(session, id string) bool {
	n.t.Helper()
	ok, _, err := n.lab.root.KV().Acquire(&api.KVPair{Key: n.lock("x"), Value: []byte(id), Session: session}, nil)
	fatal(n.t, err)
	return ok
}

// FireflySoft's members compare the value of the lock. Members of this module compare its session, so
// a restarted process, or a second one with the same id, does not lead.
func TestALockOfAnotherSessionIsNotOurs(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a := l.node(t, "a")
	if !a.acquire(l.foreign(t), "a") {
		t.Fatal("a free key was not locked")
	}
	seen := a.observe()
	if seen.Holder.ID != "a" || !strings.HasPrefix(string(seen.Holder.Nonce), "session ") || seen.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("a lock of another session with our id: want another holder, whom only Consul ends, got %+v", seen)
	}
	a.want("a bid for it", a.bid(seen), backend.Refused)
	seen.Holder, seen.Term = a.me, 1
	a.want("its renewal", a.renew(seen), backend.Refused)
	if err := a.Request(t.Context(), []backend.Request{{Election: "x", Term: 1, Kind: backend.Depose}}); backend.Class(err) != backend.ErrInvalid {
		t.Errorf("deposing a member of another program: want invalid, got %v", err)
	}
}

// A release unlocks the key and leaves the leader's id in it for FireflySoft's members. Members of
// this module need not wait. No key is deleted, and no session that has a lock is destroyed.
func TestAReleaseUnlocksAndDeletesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	got := a.bid(a.observe())
	a.want("a bid for a vacant lease", got, backend.Granted)
	held := got.Lease
	a.want("its renewal", a.renew(held), backend.Granted)
	if a.acquire(l.foreign(t), "dotnet") {
		t.Fatal("a member of FireflySoft has locked a key that a member of this module holds")
	}
	held.End = backend.Released
	fatal(t, a.Release(t.Context(), []backend.Held{held.Held()}))
	pair, _, err := l.root.KV().Get(a.lock("x"), nil)
	if err != nil || pair == nil || pair.Session != "" || string(pair.Value) != "a" {
		t.Fatalf("after a release: want the key unlocked, and a's id in it, got %+v, %v", pair, err)
	}
	for _, r := range a.wire.sent {
		if strings.HasPrefix(r, http.MethodDelete) || strings.Contains(r, "/destroy/") || strings.Contains(r, `"delete`) {
			t.Errorf("a has sent %s", r)
		}
	}
	next := b.bid(b.observe())
	b.want("a bid after that", next, backend.Granted)
	if next.Term <= held.Term {
		t.Errorf("term %d after %d", next.Term, held.Term)
	}
}

// When a FireflySoft leader has gone, the last leader waits for the failover delay, and others for
// the fleet's confirmation time. The same holds for a lock that was deleted.
func TestAFireflySoftLeaderMayReturn(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, back := l.node(t, "a"), l.node(t, "dotnet")
	back.setCandidate("dotnet")
	session := l.foreign(t)
	if !a.acquire(session, "dotnet") {
		t.Fatal("a free key was not locked")
	}
	_, err := l.root.Session().Destroy(session, nil)
	fatal(t, err)
	if seen := a.observe(); seen.ObserveFor != quick.confirmWait() || seen.LastID != "dotnet" || seen.End != backend.Failed {
		t.Errorf("another candidate waits for %v after %q %s, want %v after the old leader failed", seen.ObserveFor, seen.LastID, seen.End, quick.confirmWait())
	}
	seen := back.observe()
	if seen.ObserveFor != quick.FailoverDelay {
		t.Errorf("the old leader waits for %v, want the failover delay of %v", seen.ObserveFor, quick.FailoverDelay)
	}
	testbed.Eventually(t, time.Minute, "the end of the lock-delay", func() error {
		if got := back.bid(seen); got.Outcome != backend.Granted {
			return consulagent.ErrDelayed
		}
		return nil
	})
	_, err = l.root.KV().Delete(a.lock("x"), nil) // as Reset of a FireflySoft member does
	fatal(t, err)
	if seen := a.observe(); seen.ObserveFor < quick.FailoverDelay {
		t.Errorf("a lock deleted during a leadership is watched for %v, want at least %v", seen.ObserveFor, quick.FailoverDelay)
	}
	held := backend.Lease{Election: "x", Holder: back.me, Term: seen.Term, TTL: labTTL}
	back.want("a renewal after the deletion", back.renew(held), backend.Refused)
}

// A sealed election admits no member of FireflySoft, even after the process that sealed it has ended.
// Clearing the mark opens it again.
func TestASealKeepsFireflySoftMembersOut(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b, straggler := l.node(t, "a"), l.node(t, "b"), l.foreign(t)
	move := func(n *node, held backend.Lease, to string) backend.Lease {
		t.Helper()
		held.MovedTo = to
		answers, err := n.Mark(t.Context(), []backend.Held{held.Held()})
		fatal(t, err)
		n.want("a move to "+to, answers[0], backend.Granted)
		return answers[0].Lease
	}
	free := func(n *node, held backend.Lease) {
		t.Helper()
		held.End = backend.Released
		fatal(t, n.Release(t.Context(), []backend.Held{held.Held()}), n.Close())
	}
	held := move(a, a.bid(a.observe()).Lease, "mysql")
	a.want("a renewal of the sealed lease", a.renew(held), backend.Granted)
	if a.acquire(straggler, "late") {
		t.Fatal("a FireflySoft member got past the seal while its holder was alive")
	}
	free(a, held)
	if b.acquire(straggler, "late") {
		t.Fatal("a FireflySoft member got past the seal after its holder had gone")
	}
	seen := b.observe()
	if seen.MovedTo != "mysql" || !seen.Vacant() {
		t.Fatalf("want it moved to mysql, and vacant: %+v", seen)
	}
	got := b.bid(seen)
	b.want("a bid for the sealed lease", got, backend.Granted)
	held = move(b, got.Lease, "")
	b.want("a renewal after clearing the mark", b.renew(held), backend.Granted)
	free(b, held)
	if !a.acquire(straggler, "late") {
		t.Error("after clearing the mark a FireflySoft member is still kept out")
	}
	sessions, _, err := l.root.Session().Node(sealNode, nil)
	fatal(t, err)
	for _, s := range sessions {
		if pair, _, err := l.root.KV().Get(a.lock("x"), nil); err != nil || pair.Session == s.ID {
			t.Errorf("the seal still has the lock (%v)", err)
		}
	}
}

// An election is new only if it has no keys: one whose record was overwritten and whose lock was
// deleted may have a leader.
func TestADamagedFireflySoftRecordIsWatched(t *testing.T) {
	f, err := Open(consul.Options{}, Fleet{})
	fatal(t, err)
	for text, want := range map[string]time.Duration{"": 0, "garbage": f.fleet.FailoverDelay} {
		s := &entry{name: "x"}
		if text != "" {
			s.ownPair = &api.KVPair{Value: []byte(text)}
		}
		s.parse()
		if f.classify(s); s.lease.ObserveFor != want {
			t.Errorf("a record with %q: want it watched for %v, got %+v", text, want, s.lease)
		}
	}
}

// Any values in the keys can be classified, and the resulting records can be written.
func FuzzAFireflySoftElection(f *testing.F) {
	f.Add("a", "s", []byte(`{"term":7,"id":"a","nonce":"n","session":"s","ttl_us":-1,"seal":"t"}`), "s")
	f.Add("\xff", "", []byte(`{"term":18446744073709551615,"end":"","from":"9999-12-31T23:59:59-23:59"}`), "t")
	f.Add("", "t", []byte(`[]`), "")
	f.Fuzz(func(t *testing.T, value, session string, record []byte, locker string) {
		n, err := Open(consul.Options{}, Fleet{})
		if err != nil {
			t.Fatal(err)
		}
		s := &entry{name: "x", lockPair: &api.KVPair{Value: []byte(value), Session: session}, ownPair: &api.KVPair{Value: record, Session: locker}}
		s.parse()
		n.classify(s)
		if s.lease != clean.Lease(s.lease) || s.mine || s.lease.Version == "" || len(s.lease.Version) > 600 {
			t.Fatalf("classified as %+v", s.lease)
		}
		c := &claim{entry: s, bid: backend.Bid{Election: "x"}}
		c.prepare("mine", 1)
		n.claimOps(c, "mine")
		n.releaseOps(s, backend.Held{Election: "x"})
	})
}

// The times of the fleet are checked.
func TestTheTimesOfAFleetAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"layout: firefly":       "layout",
		"failover_delay: 61s":   "failover_delay",
		"confirm_number: 256":   "confirm_number",
		"confirm_interval: 11m": "confirm_interval",
		"session_ttl: 10ms":     "session_ttl",
	} {
		c, err := config.Parse("test", []byte("backend: firefly\nfirefly:\n  "+text+"\n"), config.Options{Environ: []string{}})
		if err == nil {
			_, err = c.OpenBackend()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error about %s, got %v", text, want, err)
		}
	}
	if g := (&Backend{fleet: quick}).Guarantees(); g.MaxTTL != min(quick.FailoverDelay, quick.SessionTTL) || g.Expiry != backend.ByStore {
		t.Errorf("a lease must not outlast lock-delay or session: %+v", g)
	}
}
