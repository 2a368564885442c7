package migration_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
)

var jobs = []backend.Lease{{Election: "jobs"}}

// A caller is one candidate on a backend of its own, without a manager.
type caller struct {
	backend.Backend
	me backend.Candidate
	t  *testing.T
}

func call(t *testing.T, b backend.Backend, id string) *caller {
	t.Cleanup(func() { b.Close() })
	return &caller{b, backend.Candidate{ID: id, Nonce: backend.NewNonce()}, t}
}

func (c *caller) look() backend.Lease {
	c.t.Helper()
	l, err := c.Observe(context.Background(), jobs)
	if err != nil || len(l) != 1 {
		c.t.Fatalf("%s looks: %v, %v", c.me.ID, l, err)
	}
	return l[0]
}

func (c *caller) bid(over backend.Lease) backend.Answer {
	c.t.Helper()
	a, err := c.Acquire(context.Background(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: over}})
	if err != nil {
		c.t.Fatalf("%s bids: %v", c.me.ID, err)
	}
	return a[0]
}

func (c *caller) win() backend.Lease {
	c.t.Helper()
	a := c.bid(c.look())
	if a.Outcome != backend.Granted {
		c.t.Fatalf("%s bids for what is free: %v", c.me.ID, a)
	}
	return a.Lease
}

func (c *caller) renew(l backend.Lease) backend.Answer {
	c.t.Helper()
	a, err := c.Renew(context.Background(), []backend.Held{l.Held()})
	if err != nil {
		c.t.Fatalf("%s renews: %v", c.me.ID, err)
	}
	return a[0]
}

// TestLosingEitherLeaseIsLosing takes one of the two away at a time.
func TestLosingEitherLeaseIsLosing(t *testing.T) {
	for _, which := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, 0)
			holder := call(t, p.open(t, migration.Both), "holder")
			held := holder.win()
			if a := holder.renew(held); a.Outcome != backend.Granted {
				t.Fatalf("a renewal of both: %v", a)
			}
			store := p.old
			if which == "new" {
				store = p.new
			}
			// An operator who knows that store alone.
			operator := call(t, store.Backend(), "operator")
			if err := operator.Request(t.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Depose}}); err != nil {
				t.Fatal(err)
			}
			if a := holder.renew(held); a.Outcome != backend.Refused {
				t.Errorf("a renewal after the %s lease was lost: %v, expected refused", which, a)
			}
		})
	}
}

// TestAConsentCountsThoughOneStoreHasTheNominationAlone: a nominee consents as soon as
// one store shows its nomination, which then arrives at the other after its consent.
func TestAConsentCountsThoughOneStoreHasTheNominationAlone(t *testing.T) {
	for _, which := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, 0)
			holder := call(t, p.open(t, migration.Both), "holder")
			held := holder.win()
			nomination := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "next"}
			consent := nomination
			consent.Kind, consent.Nonce = backend.Accept, backend.NewNonce()
			first, second := p.old, p.new
			if which == "new" {
				first, second = p.new, p.old
			}
			if err := call(t, first.Backend(), "operator").Request(t.Context(), []backend.Request{nomination}); err != nil {
				t.Fatal(err)
			}
			if err := call(t, second.Backend(), "next").Request(t.Context(), []backend.Request{consent}); err != nil {
				t.Fatal(err)
			}
			if a := holder.renew(held); a.Lease.Request.Kind != backend.Accept {
				t.Errorf("the holder sees %+v; the nominee has consented", a.Lease.Request)
			}
		})
	}
}

// TestWhatIsHalfOursIsDroppedAndTheOtherHalfLeftAlone: a process finds that it has
// the new lease, while somebody else leads by the old one.
func TestWhatIsHalfOursIsDroppedAndTheOtherHalfLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		stranger := call(t, p.old.Backend(), "stranger")
		held := stranger.win()
		both := call(t, p.open(t, migration.Both), "both")
		if err := both.Announce(t.Context(), backend.Member{Candidate: both.me, TTL: 10 * time.Second}); err != nil {
			t.Fatal(err) // a manager does so first
		}
		leftover := call(t, p.new.Backend(), "both")
		leftover.me = both.me // a bid of its own that was granted late
		leftover.win()

		seen := both.look()
		if seen.Holder.Nonce != both.me.Nonce || seen.ObserveFor != 0 {
			t.Fatalf("it does not see its own leftover: %+v", seen)
		}
		if a := both.bid(seen); a.Outcome == backend.Granted {
			t.Errorf("it is granted what somebody else leads by: %+v", a)
		}
		if a := stranger.renew(held); a.Outcome != backend.Granted {
			t.Errorf("who leads by the old store has lost it to a bid that nobody had watched for: %+v", a)
		}
		if l := leftover.look(); !l.Vacant() {
			t.Errorf("the new lease is still held by who cannot lead: %+v", l)
		}
	})
}
