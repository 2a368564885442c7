package migration_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
)

const (
	from = migration.From
	both = migration.Both
	to   = migration.To
)

// checkStraggler fails the test if the straggler leads, or if the leader does not.
func checkStraggler(t *testing.T, what string, leader, straggler *election.Election) {
	t.Helper()
	time.Sleep(5 * time.Minute) // virtual
	if !leader.Leading() || straggler.Leading() {
		t.Errorf("S1: %s: the leader leads: %v; the straggler leads: %v (%v)", what, leader.Leading(), straggler.Leading(), straggler.Current())
	}
}

// secondToThird names both stores of a second road between stores of one kind.
func secondToThird(o *migration.Options) { o.FromName, o.ToName = "my-2", "my-3" }

// renamed is FromName that was set during a migration.
func renamed(o *migration.Options) { o.FromName = "a-1" }

// thereAndBack is a road on which most members at stage to have Unsealed.
var thereAndBack = slices.Concat(places("a", "b", unsealed, "", both, to), []place{alone("b")}, places("a", "b", unsealed, to, both, from))

// leftBehind has roads that a fleet of one has walked, where it leads then, and where members were left on the way.
var leftBehind = map[string]struct {
	walked     []place
	leader     place
	stragglers []place
}{
	"left on an earlier road": {
		slices.Concat(places("a", "b", nil, "", from, both, to), places("b", "c", nil, "", from, both, to)),
		place{to, "b", "c", nil},
		places("a", "b", nil, "", from, both, to),
	},
	"left on the way back": {
		places("a", "b", nil, both, to, both, from),
		alone("a"),
		append(places("a", "b", nil, to), alone("b")),
	},
	"left on a road in the other direction": {
		slices.Concat(places("a", "b", nil, "", from, both, to), places("b", "a", nil, "", from, both, to),
			places("a", "b", nil, "", from, both, to), places("b", "a", nil, "", from, both, to)),
		alone("a"),
		[]place{alone("b")},
	},

	// From a ZooKeeper to a MySQL, and on to another ZooKeeper. A mark that said "zk" would mean the way back to members
	// of the first migration.
	"from a store of the same kind": {
		append(places("zk1", "my1", nil, "", from, both, to), places("my1", "zk2", as("zk-2"), both, to)...),
		alone("zk2"),
		places("zk1", "my1", nil, both, to),
	},
	"between stores of one kind": {
		append(places("my1", "my2", as("my-2"), "", both, to), places("my2", "my3", secondToThird, both, to)...),
		place{to, "my2", "my3", secondToThird},
		places("my1", "my2", as("my-2"), "", both, to),
	},

	// Unsealed counts no more once the fleet has gone back.
	"with Unsealed, there and back twice": {
		append(thereAndBack, thereAndBack...),
		alone("a"),
		append(places("a", "b", unsealed, to), alone("b")),
	},
	"with Unsealed, under a name that was set meanwhile": {
		append(places("a", "b", unsealed, "", both, to), place{both, "a", "b", renamed}),
		alone("a"),
		append(places("a", "b", unsealed, to), place{to, "a", "b", nil}, alone("b")),
	},
	"under a name that was set meanwhile": {
		append(places("a", "b", nil, "", both, to), place{both, "a", "b", renamed}),
		alone("a"),
		append(places("a", "b", nil, to), alone("b")),
	},
	"from a store of the same kind, after a member with Unsealed": {
		slices.Concat(places("zk1", "my1", nil, "", from, both, to), places("my1", "zk2", unsealed, to), places("my1", "zk2", as("zk-2"), both)),
		place{to, "my1", "zk2", as("zk-2")},
		places("zk1", "my1", nil, both, to),
	},
}

// A member that was left somewhere on the way wakes up.
func TestNoStragglerLeads(t *testing.T) {
	for what, c := range leftBehind {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stores{}
				s.walk(t, c.walked...)
				leader, stop := campaign(t, s.at(t, c.leader), "leader")
				time.Sleep(2 * time.Minute)
				for _, p := range c.stragglers {
					straggler, end := campaign(t, s.at(t, p), "straggler")
					checkStraggler(t, "at stage "+string(p.stage)+" of "+p.from, leader, straggler)
					end()
				}
				stop()
			})
		})
	}
}

// The new store has the name of the one from which the election came. Nobody leads until it has another name, also if a
// member with Unsealed has led there, which never reads the old store.
func TestASecondStoreOfAKindNeedsAName(t *testing.T) {
	s := stores{}
	for what, o := range map[string]migration.Options{
		"to_name":             {From: s.open("my1"), To: s.open("my2"), Stage: both},
		"printable ASCII":     {From: s.open("zk1"), To: s.open("my1"), Stage: both, ToName: "the second zk"},
		"has 1 to 40":         {From: s.open("1"), To: s.open("my1"), Stage: both}, // nothing is written as no mark
		"there is no store t": {From: s.open("zk1"), Stage: both},
		"no TTL suits both":   {From: s.open("short1"), To: s.open("my1"), Stage: both},
	} {
		if _, err := migration.New(o); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q, got %v", what, err)
		}
	}
	for _, c := range []struct {
		stage  migration.Stage
		before []place
	}{{both, nil}, {to, nil}, {both, places("my1", "zk2", unsealed, to)}} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, append(places("zk1", "my1", nil, "", from, both, to), c.before...)...)
			var received errs
			nameless, end := campaign(t, s.at(t, place{c.stage, "my1", "zk2", nil}), "nameless", received.note)
			time.Sleep(2 * time.Minute)
			leads := nameless.Leading()
			end()
			if leads || !strings.Contains(received.String(), "to_name") {
				t.Errorf("at stage %q, to a second store of a kind without a name: leads: %v; its watchers receive %q", c.stage, leads, received)
			}
		})
	}
}

// An operator's mistake has no effect on members without Unsealed, once it is corrected.
func TestUnsealedCountsOnlyWhereItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		leader, stop := campaign(t, s.at(t, place{from, "a", "b", nil}), "leader")
		time.Sleep(time.Minute)
		s.walk(t, place{to, "a", "b", unsealed}) // the mistake: two members lead
		without, end := campaign(t, s.at(t, place{to, "a", "b", nil}), "without")
		checkStraggler(t, "after the mistake was corrected", leader, without)
		end()
		stop()
	})
}

// Two migrations begin at one store.
func TestAnElectionThatMovedElsewhereIsReported(t *testing.T) {
	for _, stage := range []migration.Stage{both, to} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, places("a", "b", nil, both, to)...)
			if a := newCandidate(t, s.at(t, place{stage, "a", "c", nil}), "another election").Leads("jobs"); a.Vacant() {
				t.Errorf("another election: %+v", a)
			}
			e, stop := campaign(t, s.at(t, place{stage, "a", "c", nil}), "lost")
			time.Sleep(time.Minute)
			if e.Leading() || e.Current().Reason != election.ReasonMoved {
				t.Errorf("at stage %q: expected the reason moved, got leading %v, %v", stage, e.Leading(), e.Current())
			}
			stop()
		})
	}
}

// An observer of the old store alone cannot know who leads by the new one.
func TestAnObserverIsToldWhereTheElectionHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		observer, done := observeAs(t, s.at(t, place{from, "a", "b", nil}), election.Options{ID: "observer"})
		for _, stage := range []migration.Stage{from, both, to, both} {
			e, stop := campaign(t, s.at(t, place{stage, "a", "b", nil}), "leader")
			time.Sleep(2 * time.Minute)
			switch leader, _, known := observer.Leader(); {
			case !e.Leading():
				t.Errorf("expected a leader at stage %q, got %v", stage, e.Current())
			case stage != to && (!known || leader.ID != "leader"):
				t.Errorf("an observer at stage from does not know the leader at stage %q: %v", stage, observer.Current())
			case stage == to && (known || observer.Current().Reason != election.ReasonMoved || !strings.HasSuffix(observer.Current().Err.Error(), "moved to b")):
				t.Errorf("expected an observer at stage from to learn that the election has moved, got %v (%v)", observer.Current(), observer.Current().Err)
			}
			stop()
		}
		done()
	})
}

// There is no seal from which they could tell.
func TestObserversKnowAnUnsealedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		s.walk(t, place{both, "a", "b", nil})
		leader, stop := campaign(t, s.at(t, place{to, "a", "b", unsealed}), "leader")
		time.Sleep(time.Minute)
		for _, stage := range []migration.Stage{both, to} {
			o, done := observeAs(t, s.at(t, place{stage, "a", "b", nil}), election.Options{})
			time.Sleep(time.Minute)
			if who, _, known := o.Leader(); !leader.Leading() || !known || who.ID != "leader" {
				t.Errorf("an observer at stage %q believes that %q leads; the leader leads: %v", stage, who.ID, leader.Leading())
			}
			done()
		}
		stop()
	})
}
