package migration_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
)

var seeds = flag.Uint64("road.seeds", 30, "how many random migrations to run")

// A fleet of three migrates from one store to the other and back, process by process, while
// processes are killed and calls to the stores are lost, delayed and repeated. There are
// never two leaders, terms only grow, and after each step there is a leader.
func TestTheRoadThereAndBack(t *testing.T) {
	road := []migration.Stage{"", migration.From, migration.Both, migration.To, migration.Both, migration.From, ""}
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed)
				for range 3 {
					f.start(road[0], nil)
				}
				watch := []*election.Election{f.observer(migration.Both), f.observer(migration.To)}
				for _, stage := range road[1:] {
					for range 3 {
						f.run(time.Duration(f.rnd.Int64N(int64(30 * time.Second))))
						if f.rnd.IntN(2) == 0 {
							f.harm()
							f.run(time.Duration(f.rnd.Int64N(int64(10 * time.Second))))
						}
						n := f.nodes[0] // the oldest one
						if f.rnd.IntN(2) == 0 {
							f.stop(n)
						} else {
							f.kill(n)
						}
						f.start(stage, nil)
					}
					f.run(20 * time.Second) // calls are no longer disturbed
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

// A program that uses the old store alone wakes up late.
func TestAStragglerCannotLeadOnceTheOldStoreIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start(migration.Both, nil)
		f.run(5 * time.Second)
		f.stop(f.nodes[0])
		leader := f.start(migration.To, nil)
		if f.led(time.Minute) != leader {
			t.Fatal("expected the only member at stage to to lead")
		}
		for _, stage := range []migration.Stage{"", migration.From} {
			straggler := f.start(stage, nil)
			f.run(time.Minute)
			if ev := straggler.Current(); straggler.Leading() || ev.Reason != "moved" {
				t.Errorf("a straggler at stage %q: expected the reason moved, got %v", stage, ev)
			}
		}
		f.kill(leader)
		f.run(5 * time.Minute)
		for _, n := range f.nodes {
			if n.Leading() {
				t.Errorf("%s leads by the old store, which is sealed", n.id)
			}
		}
		f.end(t)
	})
}

// A jump goes from the old store to stage to at once. Without the seal it makes two leaders,
// and this test finds them.
func TestOnlyTheSealMakesAJumpSafe(t *testing.T) {
	for _, unsealed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1)
			old := f.start("", nil)
			f.run(5 * time.Second)
			jumper := f.start(migration.To, func(o *migration.Options) { o.Unsealed = unsealed })
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

// On the way back the record of the seal is cleared before the seal is removed.
func TestAStragglerAtToCannotLeadAfterTheWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		for _, stage := range []migration.Stage{migration.Both, migration.To, migration.Both, migration.From} {
			n := f.start(stage, nil)
			if f.led(time.Minute) != n {
				t.Fatalf("expected the only member to lead at stage %q", stage)
			}
			if stage != migration.From {
				f.stop(n)
			}
		}
		straggler := f.start(migration.To, nil)
		f.run(5 * time.Minute)
		if straggler.Leading() {
			t.Error("a straggler at stage to leads by the new lease alone, but the old store is no longer sealed")
		}
		f.end(t)
	})
}
