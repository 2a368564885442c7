package migration_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// leadsFor returns in how many of the next 600 seconds e leads.
func leadsFor(e *election.Election) (led int) {
	for range 600 {
		time.Sleep(time.Second) // virtual
		if e.Leading() {
			led++
		}
	}
	return led
}

// A process that cannot use the new store makes no bid for the old lease, which other members
// need. If the new store can be used but grants nothing, the old lease is released at once.
func TestTheNewStoreIsCheckedBeforeAnOldBid(t *testing.T) {
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		for _, denied := range []string{"Announce", "Preflight", "Acquire"} {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(false, 0)
				old, wire := conformance.Wrap(p.old.Backend()), conformance.Wrap(p.new.Backend())
				wire.Decide(func(c conformance.Call) conformance.Fate {
					if c.Method == denied {
						return conformance.Fate{Err: backend.ErrDenied}
					}
					return conformance.Fate{}
				})
				var received errs
				e, stop := campaign(t, road(t, migration.Options{From: old, To: wire, ToName: "new", Stage: stage}), "enters", received.note)
				time.Sleep(time.Minute) // no other process runs, so it bids
				other, end := campaign(t, p.old.Backend(), "from")
				led := leadsFor(other)
				n := old.Count("Acquire")
				if e.Leading() || led < 540 || n > 0 && denied != "Acquire" {
					t.Errorf("at stage %q, while the new store denies every %s: %d bids for old leases; a member at stage from has led for %d of 600 seconds", stage, denied, n, led)
				}
				end()
				wire.Decide(nil)
				time.Sleep(10 * time.Minute)
				if !e.Leading() {
					t.Errorf("at stage %q: expected to lead once the new store denies nothing, got %v", stage, e.Current())
				}
				stop()
				if text := received.String(); !strings.Contains(text, backend.ErrDenied.Error()) {
					t.Errorf("at stage %q: expected watchers to receive ErrDenied while every %s was denied, got %q", stage, denied, text)
				}
			})
		}
	}
}

// A process that holds the old lease and bids for the new one does not lead yet, and nobody names it.
func TestWhoHoldsOneHalfIsNotNamed(t *testing.T) {
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		o := migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: stage}
		c := newCandidate(t, road(t, o), "bids")

		o.From, o.To = p.old.Backend(), p.new.Backend()
		other := newCandidate(t, road(t, o), "observes")
		wire.Decide(func(call conformance.Call) conformance.Fate {
			if l := other.Sees("jobs"); call.Method == "Acquire" && !l.Vacant() {
				t.Errorf("stage %q: %q is named before it holds both leases", stage, l.Holder.ID)
			}
			return conformance.Fate{}
		})
		c.Leads("jobs")
		if l := other.Sees("jobs"); l.Holder.ID != "bids" {
			t.Errorf("stage %q: with both leases the leader is %q", stage, l.Holder.ID)
		}
	}
}

// A program without this package has no member record: whether it needs both leases is asked once, and not at each renewal.
func TestWhoHasNoRecordIsLookedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		c := newCandidate(t, road(t, migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: both}), "both")
		stranger := newCandidate(t, p.old.Backend(), "stranger")
		held := stranger.Leads("jobs")
		for range 10 {
			if l := c.Sees("jobs"); l.Holder.ID != "stranger" {
				t.Errorf("expected the stranger to be named, got %+v", l)
			}
			stranger.Keeps(held)
		}
		if n := wire.Count("Members"); n != 1 {
			t.Errorf("the members were read %d times", n)
		}
	})
}

// Members that need only the old lease can lead.
func TestAHungNewStoreDoesNotKeepTheOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		_, stop := campaign(t, road(t, migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: migration.Both}), "both")
		time.Sleep(time.Minute) // it leads by now, so the new store is known to work
		wire.Decide(func(c conformance.Call) conformance.Fate {
			return conformance.Fate{Lost: c.Method == "Acquire" || c.Method == "Renew" || c.Method == "Release"}
		})
		other, end := campaign(t, p.old.Backend(), "from")
		led := leadsFor(other)
		if led < 540 {
			t.Errorf("a member at stage from has led for %d of 600 seconds while the new store hung", led)
		}
		end()
		wire.Decide(nil)
		stop()
	})
}

// Members at stage from need only the old lease.
func TestTheOldLeaseIsReleasedIfTheNewStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		b, err := migration.New(migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: migration.Both})
		testbed.NoError(t, err)
		c := newCandidate(t, b, "both")
		held := c.Leads("jobs")
		wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{Err: backend.ErrUnavailable} })
		held.End = backend.Failed
		if err := c.Release(context.Background(), []backend.Held{held.Held()}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("expected ErrUnavailable for the half that is not released, got %v", err)
		}
		if l := newCandidate(t, p.old.Backend(), "reader").Sees("jobs"); !l.Vacant() {
			t.Errorf("expected the old lease to be released, got %+v", l)
		}
	})
}

// deposing deposes a holder just before it writes a mark.
type deposing struct {
	Inner
	store store
}

func (d deposing) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := d.store.Backend().Request(ctx, []backend.Request{{Election: held[0].Election, Term: held[0].Term, Kind: backend.Depose}}); err != nil {
		return nil, err
	}
	return d.Inner.Mark(ctx, held)
}

// A process that is deposed before its mark is written keeps no lease.
func TestALeaseLostBeforeItsMarkIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		b := road(t, migration.Options{From: p.old.Backend(), To: deposing{p.new.Backend(), p.new}, ToName: "new", Stage: migration.To, Unsealed: true})
		c := newCandidate(t, b, "deposed")
		if a := c.Bids(c.Sees("jobs")); a.Outcome != backend.Refused {
			t.Errorf("expected Refused, got %+v", a)
		}
		if l := newCandidate(t, p.new.Backend(), "reader").Sees("jobs"); !l.Vacant() {
			t.Errorf("expected the new lease to be released, got %+v", l)
		}
	})
}

type late struct {
	Inner
	readings *atomic.Int32
}

func (l late) Observe(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
	changed, err := l.Inner.Observe(ctx, seen)
	if l.readings.Add(1) == 1 {
		time.Sleep(time.Second)
	}
	return changed, err
}

func TestAnOlderReadingDoesNotReplaceANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		to := late{s.open("new").(Inner), new(atomic.Int32)}
		b := road(t, migration.Options{From: s.open("old"), To: to, Stage: migration.To})
		read := func() {
			if seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "billing"}}); err != nil || seen[0].Vacant() {
				t.Errorf("%v, %v: rule violated: the leader was read, and a reading that began before forgets it", seen, err)
			}
		}
		var first sync.WaitGroup
		first.Go(read)
		synctest.Wait()
		_, stop := campaign(t, s.at(t, place{migration.To, "old", "new", nil}), "a")
		defer stop()
		time.Sleep(time.Second / 2)
		read()
		first.Wait()
	})
}
