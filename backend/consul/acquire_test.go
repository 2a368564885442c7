package consul

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// A first bid has read that there are no keys, and arrives late: after another grant, whose keys
// an operator has deleted. Of all keys only election/changes shows that.
func TestALateFirstBidGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"no change before", "a change before"} {
		t.Run(before, func(t *testing.T) {
			l := newLab(t, testbed.SharedConsul(t))
			a, b := l.node(t, "a"), l.node(t, "b")
			if before == "a change before" {
				a.win("other")
			}
			entries, err := b.read(t.Context(), []string{"x"}, true)
			fatal(t, err)
			session, err := b.openSession(t.Context(), b.me, labTTL)
			fatal(t, err)
			held := a.win("x")
			for _, key := range []string{b.keys.lock + "x", b.keys.term + "x"} {
				_, err := l.root.KV().Delete(key, nil)
				fatal(t, err)
			}
			o := &offer{entry: entries[0], next: 1, bid: backend.Bid{Election: "x", Candidate: b.me, TTL: labTTL, Renew: labTTL / 4}}
			o.prepare(session, time.Now())
			if ok, _, _, err := b.agent.Client.KV().Txn(append(b.grantOps(o, session), b.changesOp()), nil); ok || err != nil {
				t.Errorf("two leaders: a has just been granted term %d, and the first bid of b is applied: %v, %v", held.Term, ok, err)
			}
		})
	}
}

// First grants conflict in election/changes. Each of them is tried again.
func TestManyFirstGrantsAtOnceAreGranted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	var all sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		n := l.node(t, id)
		var bids []backend.Bid
		for i := range 5 * grantChunk {
			over := n.observe(fmt.Sprint(id, i))
			bids = append(bids, backend.Bid{Election: over.Election, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: over})
		}
		all.Go(func() {
			for len(bids) > 0 {
				ctx, cancel := n.ctx()
				answers, err := n.Acquire(ctx, bids)
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				var rest []backend.Bid
				for i, a := range answers {
					if a.Outcome != backend.Granted {
						if a.Err != nil || !a.Vacant() {
							t.Errorf("%s, which has no other candidate: %v, %v", bids[i].Election, a.Outcome, a.Err)
						}
						rest = append(rest, bids[i])
					}
				}
				if len(rest) == len(bids) {
					t.Errorf("of %d first bids none was granted", len(bids))
					return
				}
				t.Logf("%s: %d of %d are left", id, len(rest), len(bids))
				bids = rest
			}
		})
	}
	all.Wait()
}

// The servers limit a transaction to half a MiB, and JSON encodes some characters in six bytes.
func TestLargeMetadataFitsIntoTransactions(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	n := l.node(t, "n")
	n.me.Metadata = strings.Repeat("<", backend.MaxMetadata)
	var bids []backend.Bid
	for i := range 2 * grantChunk {
		over := n.observe(fmt.Sprint(i))
		bids = append(bids, backend.Bid{Election: over.Election, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: over})
	}
	for _, round := range []string{"first grants", "grants anew"} {
		ctx, cancel := n.ctx()
		answers, err := n.Acquire(ctx, bids)
		cancel()
		for i, a := range answers {
			if err != nil || a.Outcome != backend.Granted {
				t.Fatalf("%s: %v, %v, %v; want granted", round, a.Outcome, a.Err, err)
			}
			bids[i].Expected = a.Lease
		}
	}
}

// A bid without an answer is followed by one that is refused. The first may still arrive.
func TestARefusedBidDoesNotSettleAnEarlierOne(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, late := l.node(t, "a"), l.node(t, "late")
	other := late.win("other")
	a.release(backend.Released, a.win("x"))
	seen := late.observe("x")
	entries, err := late.read(t.Context(), []string{"x"}, true)
	fatal(t, err)
	o := &offer{entry: entries[0], next: entries[0].lastTerm + 1, bid: backend.Bid{Election: "x", Candidate: late.me, TTL: late.ttl, Expected: seen}}
	o.prepare(late.session.get(), time.Now())
	late.heartbeats.markPending([]*offer{o})
	_, err = l.root.Session().Destroy(a.session.get(), nil) // the keys stay as they are
	fatal(t, err)
	stale := seen
	stale.Version += "x"
	late.want("a bid that expects another lease", late.bid(stale), backend.Refused)
	late.release(backend.Released, backend.Lease{Election: "x"})
	if ok, _, _, err := late.agent.Client.KV().Txn(late.grantOps(o, late.session.get()), nil); ok || err != nil {
		t.Errorf("a bid that arrives after a release with term 0: %v, %v; want it refused", ok, err)
	}
	late.want("a renewal of its other lease", late.renew(other)[0], backend.Granted)
}

// A bid that is denied for lack of a right must not hide that the session has ended, or the other
// bids of the call would fail.
func TestADeniedBidDoesNotHideAnEndedSession(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true, SessionTTLMin: time.Second})
	l := newLab(t, agent)
	rules := fmt.Sprintf("key_prefix %q { policy = \"write\" }\nsession_prefix \"\" { policy = \"write\" }\nkey_prefix %q { policy = \"read\" }", l.prefix+"/", l.keys.term+"no")
	n := l.node(t, "n", func(o *Options) { o.Token = token(t, l.root, rules).SecretID })
	_, err := n.Backend.openSession(t.Context(), n.me, n.ttl)
	fatal(t, err)
	_, err = l.root.Session().Destroy(n.session.get(), nil)
	fatal(t, err)
	var bids []backend.Bid
	for _, name := range []string{"no", "yes"} {
		bids = append(bids, backend.Bid{Election: name, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: n.observe(name)})
	}
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, bids)
	fatal(t, err)
	if answers[1].Outcome != backend.Granted || backend.Class(answers[0].Err) != backend.ErrDenied {
		t.Errorf("after the end of the session: %v, %v, want granted; and with a missing right: %v, want denied", answers[1].Outcome, answers[1].Err, answers[0].Err)
	}
}
