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

// A named backend has a name of its own, as stores of different kinds do.
type named struct {
	backend.Backend
	name string
}

func (n named) Guarantees() backend.Guarantees {
	g := n.Backend.Guarantees()
	g.Name = n.name
	return g
}

func (n named) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return n.Backend.(backend.Marker).Mark(ctx, held)
}

// Stores are several stores, by name. The part of the name before the number is the kind.
type stores map[string]*memory.Store

func (s stores) open(name string) backend.Backend {
	if s[name] == nil {
		s[name] = memory.New()
	}
	return named{s[name].Backend(), strings.TrimRight(name, "0123456789")}
}

// migrate returns a migration from one store to another. Without a stage it returns the first
// store alone.
func (s stores) migrate(t *testing.T, stage migration.Stage, from, to string, change ...func(*migration.Options)) backend.Backend {
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

// campaign starts a manager that campaigns until stop is called.
func campaign(t *testing.T, b backend.Backend, id string, watch ...func(election.Event)) (e *election.Election, stop func()) {
	t.Helper()
	return campaignAs(t, b, election.Options{ID: id}, watch...)
}

func campaignAs(t *testing.T, b backend.Backend, o election.Options, watch ...func(election.Event)) (e *election.Election, stop func()) {
	t.Helper()
	m, err := election.New(b, o)
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

// walk takes a fleet of one through the stages, and checks that it leads at each.
func (s stores) walk(t *testing.T, from, to string, stages ...migration.Stage) {
	t.Helper()
	s.walkAs(t, func(*migration.Options) {}, from, to, stages...)
}

func (s stores) walkAs(t *testing.T, change func(*migration.Options), from, to string, stages ...migration.Stage) {
	t.Helper()
	for _, stage := range stages {
		e, stop := campaign(t, s.migrate(t, stage, from, to, change), "walker")
		time.Sleep(2 * time.Minute) // virtual
		if !e.Leading() {
			t.Errorf("from %s to %s, alone at stage %q: expected to lead, got %v", from, to, stage, e.Current())
		}
		stop()
	}
}

// Elections have moved on from the second store to a third.
func TestAStragglerOfAnEarlierRoadCannotLead(t *testing.T) {
	for _, stage := range []migration.Stage{"", migration.From, migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, "a", "b", "", migration.From, migration.Both, migration.To)
			s.walk(t, "b", "c", "", migration.From, migration.Both, migration.To)
			leader, stop := campaign(t, s.migrate(t, migration.To, "b", "c"), "leader")
			straggler, end := campaign(t, s.migrate(t, stage, "a", "b"), "straggler")
			time.Sleep(5 * time.Minute)
			if !leader.Leading() || straggler.Leading() {
				t.Errorf("at stage %q from a to b: leads: %v; at stage to from b to c: leads: %v", stage, straggler.Leading(), leader.Leading())
			}
			if now := straggler.Current(); now.Reason != election.ReasonMoved {
				t.Errorf("a straggler at stage %q: expected the reason moved, got %v", stage, now)
			}
			end()
			stop()
		})
	}
}

// Two migrations begin at one store.
func TestAnElectionThatMovedElsewhereIsReported(t *testing.T) {
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, "a", "b", migration.Both, migration.To)
			c := newCandidate(t, s.migrate(t, stage, "a", "c"), "lost")
			seen := c.observe()
			answers, err := c.Acquire(context.Background(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: 10 * time.Second, Expected: seen}})
			if err != nil || answers[0].Outcome != backend.Granted {
				t.Errorf("expected a grant of another election, got %v, %v", answers, err)
			}
			e, stop := campaign(t, s.migrate(t, stage, "a", "c"), "lost too")
			time.Sleep(time.Minute)
			if e.Leading() || e.Current().Reason != election.ReasonMoved {
				t.Errorf("at stage %q: expected the reason moved, got leading %v, %v", stage, e.Leading(), e.Current())
			}
			stop()
		})
	}
}

// This is not the way back of a migration, but a new migration long after the first has ended.
func TestARoadCanBeTakenInTheOtherDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		for range 2 {
			s.walk(t, "a", "b", "", migration.From, migration.Both, migration.To)
			s.walk(t, "b", "a", "", migration.From, migration.Both, migration.To)
		}
		s.walk(t, "a", "b", "")
		straggler, stop := campaign(t, s.open("b"), "straggler")
		time.Sleep(time.Minute)
		if straggler.Leading() {
			t.Error("a member left at b leads, but the election has moved to a")
		}
		stop()
	})
}

// A member that elects by the new store may wake up late.
func TestTheWayBackSealsTheNewStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		s.walk(t, "a", "b", migration.Both, migration.To, migration.Both, migration.From)
		leader, stop := campaign(t, s.open("a"), "leader")
		straggler, end := campaign(t, s.open("b"), "straggler")
		time.Sleep(5 * time.Minute)
		if !leader.Leading() || straggler.Leading() {
			t.Errorf("after the way back from b to a: leads by a: %v; leads by b: %v", leader.Leading(), straggler.Leading())
		}
		end()
		stop()
		s.walk(t, "a", "b", migration.From, migration.Both, migration.To) // and again
	})
}

// Members at stage from need only the old lease.
func TestTheOldLeaseIsReleasedIfTheNewStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		b, err := migration.New(migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: migration.Both})
		if err != nil {
			t.Fatal(err)
		}
		c := newCandidate(t, b, "both")
		held := c.win()
		wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{Err: backend.ErrUnavailable} })
		held.End = backend.Failed
		if err := c.Release(context.Background(), []backend.Held{held.Held()}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("expected ErrUnavailable for the half that is not released, got %v", err)
		}
		if l := newCandidate(t, p.old.Backend(), "reader").observe(); !l.Vacant() {
			t.Errorf("expected the old lease to be released, got %+v", l)
		}
	})
}

// The clock of a store is ahead by more than the bid adds to the term.
func TestBothStoresAgreeOnATermDespiteClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, skew)
			held := newCandidate(t, p.open(t, migration.Both), "both").win()
			if o, n := p.terms("jobs"); o != held.Term || n != held.Term {
				t.Errorf("expected term %d in both stores, got %d and %d", held.Term, o, n)
			}
		})
	}
}

// An expiring backend looks as if it expired leases by itself.
type expiring struct{ backend.Backend }

func (e expiring) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = e.Backend.Observe(ctx, seen)
	for i := range changed {
		if changed[i].ObserveFor > 0 {
			changed[i].ObserveFor = backend.ExpiresInStore
		}
	}
	return changed, err
}

func (e expiring) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return e.Backend.(backend.Marker).Mark(ctx, held)
}

// Otherwise the process would bid for it again and again.
func TestALeftoverIsReleasedIfTheOldStoreExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		stranger := newCandidate(t, p.old.Backend(), "stranger")
		stranger.win()
		b, err := migration.New(migration.Options{From: expiring{p.old.Backend()}, To: p.new.Backend(), ToName: "new", Stage: migration.Both})
		if err != nil {
			t.Fatal(err)
		}
		both := newCandidate(t, b, "both")
		if err := both.Announce(t.Context(), backend.Member{Candidate: both.me, TTL: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		leftover := newCandidate(t, p.new.Backend(), "both")
		leftover.me = both.me
		leftover.win()
		both.bid(both.observe())
		if l := leftover.observe(); !l.Vacant() {
			t.Errorf("expected the new lease to be released, got %+v", l)
		}
	})
}

// An observer of the old store alone cannot know who leads by the new one.
func TestAnObserverIsToldWhereTheElectionHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		m, err := election.New(s.migrate(t, migration.From, "a", "b"), election.Options{ID: "observer"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		observer, err := m.Join("billing")
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, migration.Both} {
			e, stop := campaign(t, s.migrate(t, stage, "a", "b"), "leader")
			time.Sleep(2 * time.Minute)
			switch leader, _, known := observer.Leader(); {
			case !e.Leading():
				t.Errorf("expected a leader at stage %q, got %v", stage, e.Current())
			case stage != migration.To && (!known || leader.ID != "leader"):
				t.Errorf("an observer at stage from does not know the leader at stage %q: %v", stage, observer.Current())
			case stage == migration.To && (known || observer.Current().Reason != election.ReasonMoved || !strings.HasSuffix(observer.Current().Err.Error(), "moved to b")):
				t.Errorf("expected an observer at stage from to learn that the election has moved, got %v (%v)", observer.Current(), observer.Current().Err)
			}
			stop()
		}
	})
}
