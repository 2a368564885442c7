package migration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// unsealed is an operator's word, for members at stage to.
func unsealed(o *migration.Options) { o.Unsealed = o.Stage == migration.To }

// TestAnUnsealedRoadThereAndBack is TestTheRoadThereAndBack where an operator has given
// most members at stage to their word, and some know the new store alone; it is gone twice.
// Once the fleet is back, who is left over leads nobody.
func TestAnUnsealedRoadThereAndBack(t *testing.T) {
	type step struct {
		stage migration.Stage
		word  bool
		alone bool // they know nothing of the old store
	}
	there := []step{{migration.Both, false, false}, {migration.To, true, false}, {migration.To, true, true}, {migration.To, true, false}, {migration.Both, false, false}, {migration.From, false, false}}
	again := []step{{migration.Both, false, false}, {migration.To, false, false}, {migration.To, true, false}, {migration.Both, false, false}, {migration.From, false, false}}
	for seed := range (*seeds + 2) / 3 { // it is longer
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1000+seed)
				start := func(s step) *node {
					if s.alone {
						return f.startAlone()
					}
					return f.start(s.stage, func(o *migration.Options) { o.Unsealed = s.word && f.rnd.IntN(3) > 0 })
				}
				for range 3 {
					start(there[0])
				}
				for _, s := range append(there[1:len(there):len(there)], again...) {
					for range 3 {
						f.run(time.Duration(f.rnd.Int64N(int64(30 * time.Second))))
						if f.rnd.IntN(2) == 0 {
							f.harm()
							f.run(time.Duration(f.rnd.Int64N(int64(10 * time.Second))))
						}
						if n := f.nodes[0]; f.rnd.IntN(2) == 0 {
							f.stop(n)
						} else {
							f.kill(n)
						}
						start(s)
					}
					f.run(20 * time.Second)
					if f.led(90*time.Second) == nil {
						t.Errorf("L3: all three are at %+v, and nobody leads after 90 s", s)
					}
					if s.stage == migration.From {
						left := []*node{f.start(migration.To, unsealed), f.startAlone()}
						f.run(90 * time.Second)
						for _, n := range left {
							f.kill(n)
						}
						f.run(30 * time.Second)
					}
				}
				f.end(t)
			})
		})
	}
}

// startAlone starts a process that elects by the new store and knows of no other.
func (f *fleet) startAlone() *node {
	wire := conformance.Wrap(f.pair.new.Backend())
	f.next++
	return f.launch(&node{id: fmt.Sprintf("alone%d", f.next), wires: []*conformance.Wire{wire, wire}}, wire)
}

// TestOneMembersWordIsNotGivenToOthers: an operator's mistake ends when it is taken back.
func TestOneMembersWordIsNotGivenToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		leader, stop := lives(t, s.goes(t, migration.From, "a", "b"), "leader")
		time.Sleep(time.Minute)
		s.walkAs(t, unsealed, "a", "b", migration.To) // the mistake, with which there are two
		without, end := lives(t, s.goes(t, migration.To, "a", "b"), "without")
		besides(t, "the mistake was taken back", leader, without)
		end()
		stop()
	})
}

// TestARecordIsClearedWhateverItCallsTheOldStore: names may have been given on the way.
func TestARecordIsClearedWhateverItCallsTheOldStore(t *testing.T) {
	for _, change := range []func(*migration.Options){unsealed, func(*migration.Options) {}} {
		synctest.Test(t, func(t *testing.T) {
			s := town{}
			s.walkAs(t, change, "a", "b", "", migration.Both, migration.To)
			both, stop := lives(t, s.goes(t, migration.Both, "a", "b", func(o *migration.Options) { o.FromName = "a-1" }), "both")
			time.Sleep(2 * time.Minute)
			if !both.Leading() {
				t.Errorf("at both, under another name: %v", both.Current())
			}
			stop()
			leader, stop := lives(t, s.open("a"), "leader")
			time.Sleep(time.Minute)
			for _, b := range []backend.Backend{s.goes(t, migration.To, "a", "b", change), s.goes(t, migration.To, "a", "b"), s.open("b")} {
				straggler, end := lives(t, b, "straggler")
				time.Sleep(5 * time.Minute)
				if leader.Leading() && straggler.Leading() {
					t.Errorf("S1: the fleet is back at a, and %v", straggler.Current())
				}
				end()
			}
			stop()
		})
	}
}

// TestAnUnsealedRoadDoesNotHideThatAStoreNeedsAName: it never looks at the old store.
func TestAnUnsealedRoadDoesNotHideThatAStoreNeedsAName(t *testing.T) {
	second := func(o *migration.Options) { o.ToName = "zk-2" }
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := town{}
			s.walk(t, "zk1", "my1", "", migration.From, migration.Both, migration.To)
			s.walkAs(t, unsealed, "my1", "zk2", migration.To)
			var told errs
			nameless, end := lives(t, s.goes(t, migration.Both, "my1", "zk2"), "nameless", told.note)
			time.Sleep(2 * time.Minute)
			end()
			if nameless.Leading() || !strings.Contains(told.String(), "to_name") {
				t.Errorf("at both without a name: leads: %v; its watchers are told %q", nameless.Leading(), told)
			}
			s.walkAs(t, second, "my1", "zk2", migration.Both)
			leader, stop := lives(t, s.goes(t, migration.To, "my1", "zk2", second), "leader")
			time.Sleep(2 * time.Minute)
			straggler, end := lives(t, s.goes(t, stage, "zk1", "my1"), "straggler")
			besides(t, "at stage "+string(stage)+" of the first road", leader, straggler)
			end()
			stop()
		})
	}
}

// TestObserversKnowWhoLeadsByAnOperatorsWord: there is no seal by which they could tell.
func TestObserversKnowWhoLeadsByAnOperatorsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		s.walk(t, "a", "b", migration.Both)
		leader, stop := lives(t, s.goes(t, migration.To, "a", "b", unsealed), "leader")
		time.Sleep(time.Minute)
		for _, stage := range []migration.Stage{migration.Both, migration.To} {
			m, err := election.New(s.goes(t, stage, "a", "b"), nil)
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.Join("billing")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if who, _, known := o.Leader(); !leader.Leading() || !known || who.ID != "leader" {
				t.Errorf("an observer at stage %q knows %q; the leader leads: %v", stage, who.ID, leader.Leading())
			}
			m.Close(context.Background())
		}
		stop()
	})
}

// deposing deposes whoever is about to write a mark.
type deposing struct {
	backend.Backend
	store store
}

func (d deposing) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := d.store.Backend().Request(ctx, []backend.Request{{Election: held[0].Election, Term: held[0].Term, Kind: backend.Depose}}); err != nil {
		return nil, err
	}
	return d.Backend.Mark(ctx, held)
}

// TestWhoIsDeposedBeforeItsMarkIsWrittenIsRefused, and keeps no lease.
func TestWhoIsDeposedBeforeItsMarkIsWrittenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		b := road(t, migration.Options{From: p.old.Backend(), To: deposing{p.new.Backend(), p.new}, ToName: "new", Stage: migration.To, Unsealed: true})
		c := call(t, b, "deposed")
		answers, err := c.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: c.look()}})
		if err != nil || answers[0].Outcome != backend.Refused {
			t.Errorf("its answer: %+v, %v", answers, err)
		}
		if l := call(t, p.new.Backend(), "reader").look(); !l.Vacant() {
			t.Errorf("the new lease is still held: %+v", l)
		}
	})
}
