package migration_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

var seeds = flag.Uint64("road.seeds", 30, "how many random migrations to run")

// A fleet of three migrates from one store to the other and back, process by process, while
// processes are killed and calls to the stores are lost, delayed and repeated. There are
// never two leaders, terms only grow, and after each step there is a leader.
func TestTheRoadThereAndBack(t *testing.T) {
	road := []migration.Stage{"", from, both, to, both, from, ""}
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed)
				for range 3 {
					f.start(road[0], nil)
				}
				watch := []*election.Election{f.observer(t, both), f.observer(t, to)}
				for _, stage := range road[1:] {
					f.replaceAll(func() { f.start(stage, nil) })
					if f.led(time.Minute) == nil {
						t.Errorf("L3: all three are at stage %q, and there is no leader after a minute", stage)
					}
					f.run(30 * time.Second)
					for _, o := range watch {
						leader, _, known := o.Leader()
						if leads := f.led(time.Minute); leads != nil && (!known || leader.ID != leads.id) {
							t.Errorf("all are at stage %q and %s leads; an observer believes that %q leads (%v)", stage, leads.id, leader.ID, o.Current())
						}
					}
				}
				f.end(t)
				for _, stage := range road {
					if f.leaderships[stage] == 0 {
						t.Errorf("there was no leader at stage %q: this run shows little", stage)
					}
				}
			})
		})
	}
}

// A jump goes from the old store to stage to at once. Without the seal it makes two leaders, and this test finds them.
func TestOnlyTheSealMakesAJumpSafe(t *testing.T) {
	for _, unsealed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1)
			old := f.start("", nil)
			f.run(5 * time.Second)
			jumper := f.start(to, func(o *migration.Options) { o.Unsealed = unsealed })
			f.run(time.Minute)
			switch {
			case unsealed && len(f.violations) == 0:
				t.Error("unsealed: expected this test to find two leaders, got none")
			case !unsealed && len(f.violations) > 0:
				t.Errorf("with the seal: %s", f.violations[0])
			case !unsealed:
				if leader, _, _ := jumper.Leader(); leader.ID != old.id {
					t.Errorf("a member at stage to believes that %q leads, and %q holds the old lease", leader.ID, old.id)
				}
			}
			f.violations = nil
			f.end(t)
		})
	}
}

// This is TestTheRoadThereAndBack, twice in a row, with Unsealed for most members at stage to, and with members that use the
// new store alone. Once the fleet is back, stragglers do not lead.
func TestAnUnsealedRoadThereAndBack(t *testing.T) {
	type step struct {
		stage    migration.Stage
		unsealed bool
		alone    bool // members that use the new store alone
	}
	there := []step{{stage: both}, {to, true, false}, {to, true, true}, {to, true, false}, {stage: both}, {stage: from}}
	again := []step{{stage: both}, {stage: to}, {to, true, false}, {stage: both}, {stage: from}}
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
					f.replaceAll(func() { start(s) })
					if f.led(90*time.Second) == nil {
						t.Errorf("L3: all three are at %+v, and there is no leader after 90 s", s)
					}
					if s.stage == from {
						left := []*node{f.start(to, unsealed), f.startAlone()}
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

func (f *fleet) startAlone() *node {
	wire := conformance.Wrap(f.pair.new.Backend())
	f.next++
	return f.launch(&node{id: fmt.Sprintf("alone%d", f.next), wires: []*conformance.Wire{wire, wire}}, wire)
}
