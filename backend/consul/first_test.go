package consul

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// A first bid has looked before there was anything, and is carried out late: after
// another was granted, and its keys were deleted by hand. It has no key to rest on that
// tells, but the one of changes.
func TestAFirstBidThatComesAfterTheKeysWereDeletedGrantsNothing(t *testing.T) {
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
			session, err := b.open(t.Context(), b.me, labTTL)
			fatal(t, err)
			held := a.win("x")
			for _, key := range []string{b.keys.lock + "x", b.keys.term + "x"} {
				_, err := l.root.KV().Delete(key, nil)
				fatal(t, err)
			}
			o := &offer{entry: entries[0], next: 1, bid: backend.Bid{Election: "x", Candidate: b.me, TTL: labTTL, Renew: labTTL / 4}}
			o.draw(session, time.Now())
			if ok, _, _, err := b.client.KV().Txn(append(b.grantOps(o, session), b.changed()), nil); ok || err != nil {
				t.Errorf("two leaders: a leads since it was granted term %d a moment ago, and the first bid of b is carried out: %v, %v", held.Term, ok, err)
			}
		})
	}
}

// First grants disturb each other in that key. Each is tried again.
func TestManyFirstGrantsAtOnceAreGranted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	var all sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		n := l.node(t, id)
		var bids []backend.Bid
		for i := range 5 * grantChunk {
			over := n.look(fmt.Sprint(id, i))
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
							t.Errorf("%s, of which nobody else knows: %v, %v", bids[i].Election, a.Outcome, a.Err)
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
