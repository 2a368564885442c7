package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// A named backend goes by a name of its own, as stores of different kinds do.
type named struct {
	backend.Backend
	name string
}

func (n named) Guarantees() backend.Guarantees {
	g := n.Backend.Guarantees()
	g.Name = n.name
	return g
}

// A town has several stores, by name. What is before the number is their kind.
type town map[string]*memory.Store

func (s town) open(name string) backend.Backend {
	if s[name] == nil {
		s[name] = memory.New()
	}
	return named{s[name].Backend(), strings.TrimRight(name, "0123456789")}
}

// goes returns a client on the way from one store to another. Without a stage it is
// at the first alone.
func (s town) goes(t *testing.T, stage migration.Stage, from, to string, change ...func(*migration.Options)) backend.Backend {
	if stage == "" {
		return s.open(from)
	}
	o := migration.Options{From: s.open(from), To: s.open(to), Stage: stage}
	for _, f := range change {
		f(&o)
	}
	b, err := migration.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lives starts a manager that campaigns, until stop is called.
func lives(t *testing.T, b backend.Backend, id string, watch ...func(election.Event)) (e *election.Election, stop func()) {
	m, err := election.New(b, &election.Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if e, err = m.Join("billing"); err != nil {
		t.Fatal(err)
	}
	for _, callback := range watch {
		e.Watch(callback)
	}
	if err := e.Lead(nil); err != nil {
		t.Fatal(err)
	}
	return e, func() { m.Close(context.Background()) }
}

// walk leads at each stage of a road in turn, alone.
func (s town) walk(t *testing.T, from, to string, stages ...migration.Stage) {
	t.Helper()
	s.walkAs(t, func(*migration.Options) {}, from, to, stages...)
}

func (s town) walkAs(t *testing.T, change func(*migration.Options), from, to string, stages ...migration.Stage) {
	t.Helper()
	for _, stage := range stages {
		e, stop := lives(t, s.goes(t, stage, from, to, change), "walker")
		time.Sleep(2 * time.Minute) // virtual
		if !e.Leading() {
			t.Errorf("from %s to %s, alone at stage %q: %v", from, to, stage, e.Current())
		}
		stop()
	}
}

// TestWhoIsStillOnAnEarlierRoadCannotLead: elections have moved on, from the second
// store to a third.
func TestWhoIsStillOnAnEarlierRoadCannotLead(t *testing.T) {
	for _, stage := range []migration.Stage{"", migration.From, migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := town{}
			s.walk(t, "a", "b", "", migration.From, migration.Both, migration.To)
			s.walk(t, "b", "c", "", migration.From, migration.Both, migration.To)
			leader, stop := lives(t, s.goes(t, migration.To, "b", "c"), "leader")
			straggler, end := lives(t, s.goes(t, stage, "a", "b"), "straggler")
			time.Sleep(5 * time.Minute)
			if !leader.Leading() || straggler.Leading() {
				t.Errorf("at stage %q of the road from a to b: leads: %v; at the end of the road from b to c: %v", stage, straggler.Leading(), leader.Leading())
			}
			if now := straggler.Current(); now.Reason != election.ReasonMoved {
				t.Errorf("a straggler at stage %q is told %v", stage, now)
			}
			end()
			stop()
		})
	}
}

// TestWhoWouldMoveAnElectionThatHasMovedElsewhereIsTold: two roads that begin at one
// store.
func TestWhoWouldMoveAnElectionThatHasMovedElsewhereIsTold(t *testing.T) {
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := town{}
			s.walk(t, "a", "b", migration.Both, migration.To)
			c := call(t, s.goes(t, stage, "a", "c"), "lost")
			over := c.look()
			answers, err := c.Acquire(context.Background(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: 10 * time.Second, Expected: over}})
			if err != nil || answers[0].Outcome != backend.Granted {
				t.Errorf("another election: %v, %v", answers, err)
			}
			e, stop := lives(t, s.goes(t, stage, "a", "c"), "lost too")
			time.Sleep(time.Minute)
			if e.Leading() || e.Current().Reason != election.ReasonMoved {
				t.Errorf("at stage %q: leads: %v, %v", stage, e.Leading(), e.Current())
			}
			stop()
		})
	}
}

// TestARoadCanBeGoneAgainInTheOtherDirection: not as the way back of the first road,
// but as one of its own, long after that ended.
func TestARoadCanBeGoneAgainInTheOtherDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		for range 2 {
			s.walk(t, "a", "b", "", migration.From, migration.Both, migration.To)
			s.walk(t, "b", "a", "", migration.From, migration.Both, migration.To)
		}
		s.walk(t, "a", "b", "")
		straggler, stop := lives(t, s.open("b"), "straggler")
		time.Sleep(time.Minute)
		if straggler.Leading() {
			t.Error("who is still at b leads, and all have moved to a")
		}
		stop()
	})
}

// TestTheWayBackSealsTheNewStore: somebody may be there already, and wake up late.
func TestTheWayBackSealsTheNewStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		s.walk(t, "a", "b", migration.Both, migration.To, migration.Both, migration.From)
		leader, stop := lives(t, s.open("a"), "leader")
		straggler, end := lives(t, s.open("b"), "straggler")
		time.Sleep(5 * time.Minute)
		if !leader.Leading() || straggler.Leading() {
			t.Errorf("leads by a: %v; by b, from which all have come back: %v", leader.Leading(), straggler.Leading())
		}
		end()
		stop()
		s.walk(t, "a", "b", migration.From, migration.Both, migration.To) // and again
	})
}

// TestTheOldLeaseIsGivenBackThoughTheNewStoreIsAway: members at the stage before need
// it alone.
func TestTheOldLeaseIsGivenBackThoughTheNewStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		b, err := migration.New(migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: migration.Both})
		if err != nil {
			t.Fatal(err)
		}
		c := call(t, b, "both")
		held := c.win()
		wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{Err: backend.ErrUnavailable} })
		held.End = backend.Failed
		if err := c.Release(context.Background(), []backend.Held{held.Held()}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("a release of which half is not known: %v", err)
		}
		if l := call(t, p.old.Backend(), "reader").look(); !l.Vacant() {
			t.Errorf("the old lease is still held: %+v", l)
		}
	})
}

// TestOneBidAgreesOnATermThoughAStoresClockIsAhead: by more than what is asked for.
func TestOneBidAgreesOnATermThoughAStoresClockIsAhead(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, skew)
			held := call(t, p.open(t, migration.Both), "both").win()
			if o, n := p.terms("jobs"); o != held.Term || n != held.Term {
				t.Errorf("a grant of term %d, which the stores have as %d and %d", held.Term, o, n)
			}
		})
	}
}

// deciding expires leases by itself, as far as anybody can see.
type deciding struct{ backend.Backend }

func (d deciding) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = d.Backend.Observe(ctx, seen)
	for i := range changed {
		if changed[i].ObserveFor > 0 {
			changed[i].ObserveFor = backend.ExpiresInStore
		}
	}
	return changed, err
}

// TestALeftoverIsDroppedThoughTheOldStoreDecides: it would be bid for again and again.
func TestALeftoverIsDroppedThoughTheOldStoreDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		stranger := call(t, p.old.Backend(), "stranger")
		stranger.win()
		b, err := migration.New(migration.Options{From: deciding{p.old.Backend()}, To: p.new.Backend(), ToName: "new", Stage: migration.Both})
		if err != nil {
			t.Fatal(err)
		}
		both := call(t, b, "both")
		if err := both.Announce(t.Context(), backend.Member{Candidate: both.me, TTL: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		leftover := call(t, p.new.Backend(), "both")
		leftover.me = both.me
		leftover.win()
		both.bid(both.look())
		if l := leftover.look(); !l.Vacant() {
			t.Errorf("the new lease is still held by who cannot lead: %+v", l)
		}
	})
}

// TestAnObserverIsToldWhereTheElectionHasMoved: one that looks at the old store alone
// cannot know who leads by the new one.
func TestAnObserverIsToldWhereTheElectionHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		m, err := election.New(s.goes(t, migration.From, "a", "b"), &election.Options{ID: "observer"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		observer, err := m.Join("billing")
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, migration.Both} {
			e, stop := lives(t, s.goes(t, stage, "a", "b"), "leader")
			time.Sleep(2 * time.Minute)
			switch leader, _, known := observer.Leader(); {
			case !e.Leading():
				t.Errorf("nobody leads at stage %q: %v", stage, e.Current())
			case stage != migration.To && (!known || leader.ID != "leader"):
				t.Errorf("an observer at stage from does not know who leads at stage %q: %v", stage, observer.Current())
			case stage == migration.To && (known || observer.Current().Reason != election.ReasonMoved || !strings.HasSuffix(observer.Current().Err.Error(), "moved to b")):
				t.Errorf("an observer at stage from is not told that the election has moved: %v (%v)", observer.Current(), observer.Current().Err)
			}
			stop()
		}
	})
}
