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

// unsealed sets Unsealed for members at stage to.
func unsealed(o *migration.Options) { o.Unsealed = o.Stage == migration.To }

// This is TestTheRoadThereAndBack, twice in a row, with Unsealed for most members at stage to,
// and with members that use the new store alone. Once the fleet is back, stragglers do not
// lead.
func TestAnUnsealedRoadThereAndBack(t *testing.T) {
	type step struct {
		stage    migration.Stage
		unsealed bool
		alone    bool // members that use the new store alone
	}
	there := []step{{migration.Both, false, false}, {migration.To, true, false}, {migration.To, true, true}, {migration.To, true, false}, {migration.Both, false, false}, {migration.From, false, false}}
	again := []step{{migration.Both, false, false}, {migration.To, false, false}, {migration.To, true, false}, {migration.Both, false, false}, {migration.From, false, false}}
	for seed := range (*seeds + 2) / 3 { // each run is longer
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1000+seed)
				start := func(s step) *node {
					if s.alone {
						return f.startAlone()
					}
					return f.start(s.stage, func(o *migration.Options) { o.Unsealed = s.unsealed && f.rnd.IntN(3) > 0 })
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
						t.Errorf("L3: all three are at %+v, and there is no leader after 90 s", s)
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

// startAlone starts a process that uses the new store alone.
func (f *fleet) startAlone() *node {
	wire := conformance.Wrap(f.pair.new.Backend())
	f.next++
	return f.launch(&node{id: fmt.Sprintf("alone%d", f.next), wires: []*conformance.Wire{wire, wire}}, wire)
}

// An operator's mistake has no effect on members without Unsealed, once it is corrected.
func TestUnsealedCountsOnlyWhereItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		leader, stop := campaign(t, s.migrate(t, migration.From, "a", "b"), "leader")
		time.Sleep(time.Minute)
		s.walkAs(t, unsealed, "a", "b", migration.To) // the mistake: two members lead
		without, end := campaign(t, s.migrate(t, migration.To, "a", "b"), "without")
		checkStraggler(t, "after the mistake was corrected", leader, without)
		end()
		stop()
	})
}

// FromName may have been set during the migration.
func TestARecordUnderAnyNameIsCleared(t *testing.T) {
	for _, change := range []func(*migration.Options){unsealed, func(*migration.Options) {}} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walkAs(t, change, "a", "b", "", migration.Both, migration.To)
			both, stop := campaign(t, s.migrate(t, migration.Both, "a", "b", func(o *migration.Options) { o.FromName = "a-1" }), "both")
			time.Sleep(2 * time.Minute)
			if !both.Leading() {
				t.Errorf("at stage both, under another name: expected to lead, got %v", both.Current())
			}
			stop()
			leader, stop := campaign(t, s.open("a"), "leader")
			time.Sleep(time.Minute)
			for _, b := range []backend.Backend{s.migrate(t, migration.To, "a", "b", change), s.migrate(t, migration.To, "a", "b"), s.open("b")} {
				straggler, end := campaign(t, b, "straggler")
				time.Sleep(5 * time.Minute)
				if leader.Leading() && straggler.Leading() {
					t.Errorf("S1: the fleet is back at a, and a straggler leads: %v", straggler.Current())
				}
				end()
			}
			stop()
		})
	}
}

// A member with Unsealed never reads the old store. A later member at stage both must still
// find out that the new store needs a name.
func TestUnsealedDoesNotReplaceAName(t *testing.T) {
	second := func(o *migration.Options) { o.ToName = "zk-2" }
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, "zk1", "my1", "", migration.From, migration.Both, migration.To)
			s.walkAs(t, unsealed, "my1", "zk2", migration.To)
			var received errs
			nameless, end := campaign(t, s.migrate(t, migration.Both, "my1", "zk2"), "nameless", received.note)
			time.Sleep(2 * time.Minute)
			end()
			if nameless.Leading() || !strings.Contains(received.String(), "to_name") {
				t.Errorf("at stage both without a name: leads: %v; its watchers receive %q", nameless.Leading(), received)
			}
			s.walkAs(t, second, "my1", "zk2", migration.Both)
			leader, stop := campaign(t, s.migrate(t, migration.To, "my1", "zk2", second), "leader")
			time.Sleep(2 * time.Minute)
			straggler, end := campaign(t, s.migrate(t, stage, "zk1", "my1"), "straggler")
			checkStraggler(t, "at stage "+string(stage)+" of the first migration", leader, straggler)
			end()
			stop()
		})
	}
}

// There is no seal from which they could tell.
func TestObserversKnowAnUnsealedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		s.walk(t, "a", "b", migration.Both)
		leader, stop := campaign(t, s.migrate(t, migration.To, "a", "b", unsealed), "leader")
		time.Sleep(time.Minute)
		for _, stage := range []migration.Stage{migration.Both, migration.To} {
			m, err := election.New(s.migrate(t, stage, "a", "b"), election.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.Join("billing")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if who, _, known := o.Leader(); !leader.Leading() || !known || who.ID != "leader" {
				t.Errorf("an observer at stage %q believes that %q leads; the leader leads: %v", stage, who.ID, leader.Leading())
			}
			m.Close(context.Background())
		}
		stop()
	})
}

// deposing deposes a holder just before it writes a mark.
type deposing struct {
	backend.Backend
	store store
}

func (d deposing) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := d.store.Backend().Request(ctx, []backend.Request{{Election: held[0].Election, Term: held[0].Term, Kind: backend.Depose}}); err != nil {
		return nil, err
	}
	return d.Backend.(backend.Marker).Mark(ctx, held)
}

// A process that is deposed before its mark is written keeps no lease.
func TestALeaseLostBeforeItsMarkIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		b := road(t, migration.Options{From: p.old.Backend(), To: deposing{p.new.Backend(), p.new}, ToName: "new", Stage: migration.To, Unsealed: true})
		c := newCandidate(t, b, "deposed")
		answers, err := c.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: c.observe()}})
		if err != nil || answers[0].Outcome != backend.Refused {
			t.Errorf("expected Refused, got %+v, %v", answers, err)
		}
		if l := newCandidate(t, p.new.Backend(), "reader").observe(); !l.Vacant() {
			t.Errorf("expected the new lease to be released, got %+v", l)
		}
	})
}
