package curator

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A bid finds no record. Before it is carried out, another bid is granted and an operator
// deletes the record. The late bid then creates the record again, with the version under
// which the other bid was granted. See docs/design/curator.md, "The first grant of an
// election".
func TestALateFirstBidGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector} {
		o := longSessions(shared(t))
		o.Layout = layout
		a, b, c, admin := newClient(t, "a", o), newClient(t, "b", o), newClient(t, "c", o), dial(t, o.Servers)
		b.winLongSession(t, "other") // opens its session
		id := b.session.id()
		snap, err := b.takeSnapshot(t.Context(), b.session, "jobs", watchedRead())
		if err != nil || snap.record != nil || snap.lease.ObserveFor != 0 {
			t.Fatalf("%s: want a free lease without a record, got %+v, %v", layout, snap.lease, err)
		}
		held := a.winLongSession(t, "jobs")
		if err := admin.Delete(a.layout.recordPath("jobs"), -1); err != nil {
			t.Fatal(err)
		}
		if l, done, err := b.grant(t.Context(), b.session, id, b.bid(snap.lease), &snap); err != nil || done {
			t.Errorf("%s: a bid that has read before the record was created and deleted: want no grant, got %+v, %v", layout, l, err)
		}
		expectOnlyWatched(t, c, "jobs")
		if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
			t.Errorf("%s: a renewal under a record that another has made: want refused, got %+v, %v", layout, answers, err)
		}
		if got, err := b.try(snap.lease); err != nil || got.Outcome != backend.Refused {
			t.Errorf("%s: the same bid once more: want refused, got %+v, %v", layout, got, err)
		}
		if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
			t.Fatal(err)
		}
		// A challenger that has observed for the longest TTL is granted the lease, and can
		// renew.
		won := c.win(t, "jobs")
		if won.Term <= held.Term {
			t.Errorf("%s: want a term above %d, got %+v", layout, held.Term, won)
		}
		c.keep(t, won)
	}
}

// The same, but the bidder is cut off before it has read which records were deleted. That
// it then gives up does not free the lease for others.
func TestAnUnconfirmedRecordIsObservedForMaxTTL(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, c, admin := newClient(t, "a", o), newClient(t, "c", o), dial(t, o.Servers)
	proxy := testbed.NewProxy(t, o.Servers[0])
	o.Servers = []string{proxy.Addr()}
	b := newClient(t, "b", o)
	b.winLongSession(t, "other")

	first := proxy.Trap(`"making":`, testbed.HoldRequest)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan []backend.Answer, 1)
	bid := b.bid(b.observeOne(t, "jobs"))
	go func() {
		answers, _ := b.Acquire(ctx, []backend.Bid{bid})
		ended <- answers
	}()
	first.Wait(t, patience)
	held := a.winLongSession(t, "jobs")
	a.keep(t, held)
	if err := admin.Delete(a.layout.recordPath("jobs"), -1); err != nil {
		t.Fatal(err)
	}
	second := proxy.Trap(b.layout.recordParent, testbed.LoseRequest) // its read of deleted records
	first.Release()
	second.Wait(t, patience)
	cancel()
	if answers := <-ended; len(answers) > 0 && answers[0].Outcome != backend.Unknown {
		t.Errorf("a bid that was cut off in the middle: want nothing known, got %+v", answers)
	}
	expectOnlyWatched(t, c, "jobs")
	testbed.Eventually(t, patience, "a release with term 0", func() error {
		return b.release(backend.Lease{Election: "jobs", Holder: b.me, End: backend.Released})
	})
	expectOnlyWatched(t, c, "jobs")
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Errorf("a renewal under a record that another has made: want refused, got %+v, %v", answers, err)
	}
	if records, err := c.List(t.Context(), "", 10); err != nil || len(records) != 1 || records[0].Election != "other" {
		t.Errorf("want the record that is being made not listed, got %+v, %v", records, err)
	}
}

// A record that an operator marks as unconfirmed names no leader, neither to others nor to
// its holder.
func TestAnUnconfirmedRecordNamesNoLeader(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, c, admin := newClient(t, "a", o), newClient(t, "c", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	text, _, err := admin.Get(a.layout.recordPath("jobs"))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := parseRecord(text, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	rec.Unconfirmed = "1-0"
	if _, err := admin.Set(a.layout.recordPath("jobs"), rec.encode(), -1); err != nil {
		t.Fatal(err)
	}
	expectOnlyWatched(t, c, "jobs")
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Errorf("a renewal: want refused, got %+v, %v", answers, err)
	}
}

// Usually nothing was deleted, and only an answer was lost. Then no one waits: neither the
// bidder that bids again, nor the others after it has given up.
func TestALostAnswerToAFirstBidCostsNothing(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(b, c *client) (backend.Answer, error){
		"it bids again": func(b, c *client) (backend.Answer, error) {
			return b.try(backend.Lease{Election: "jobs"})
		},
		"it gives up, and another bids": func(b, c *client) (backend.Answer, error) {
			if err := b.release(backend.Lease{Election: "jobs", Holder: b.me, End: backend.Released}); err != nil {
				return backend.Answer{}, err
			}
			return c.try(c.observeOne(t, "jobs"))
		},
	} {
		o := longSessions(shared(t))
		c := newClient(t, "c", o)
		proxy := testbed.NewProxy(t, o.Servers[0])
		o.Servers = []string{proxy.Addr()}
		b := newClient(t, "b", o)
		b.winLongSession(t, "other")
		if err := b.createParents(t.Context(), b.session, b.layout.lockPath("jobs")+"/x", false); err != nil {
			t.Fatal(err) // so that the request finds a queue
		}
		bid := b.bid(b.observeOne(t, "jobs"))
		trap := proxy.Trap(`"making":`, testbed.LoseReply)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		answers, err := b.Acquire(ctx, []backend.Bid{bid})
		cancel()
		trap.Wait(t, patience)
		if len(answers) > 0 && answers[0].Outcome != backend.Unknown || err == nil && answers[0].Err == nil {
			t.Fatalf("%s: a lost answer: want nothing known, got %+v, %v", name, answers, err)
		}
		expectOnlyWatched(t, c, "jobs")
		var got backend.Answer
		testbed.Eventually(t, patience, "an answer", func() (err error) {
			got, err = then(b, c)
			return err
		})
		if got.Outcome != backend.Granted {
			t.Errorf("%s: want granted at once, got %+v", name, got)
		}
	}
}

// expectOnlyWatched checks that no leader is shown, and that a challenger observes for the
// longest TTL.
func expectOnlyWatched(t testing.TB, c *client, name string) {
	t.Helper()
	seen, want := c.observeOne(t, name), c.Guarantees().MaxTTL
	if !seen.Vacant() || seen.Term != 0 || seen.ObserveFor != want {
		t.Errorf("an unconfirmed record: want no leader shown, and an observation of %v, got %+v", want, seen)
	}
	if got, err := c.try(backend.Lease{Election: name, Version: seen.Version}); err != nil || got.Outcome != backend.Refused {
		t.Errorf("a bid without an observation: want refused, got %+v, %v", got, err)
	}
}
