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

var seeds = flag.Uint64("road.seeds", 30, "how many roads to go")

// TestTheRoadThereAndBack moves a fleet of three from one store to the other and
// back again, process by process, while processes are killed and their ways to the
// stores lose, delay and double what they carry. There are never two leaders,
// terms only grow, and after each step somebody leads.
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
						n := f.nodes[0] // the one that is longest at its stage
						if f.rnd.IntN(2) == 0 {
							f.stop(n)
						} else {
							f.kill(n)
						}
						f.start(stage, nil)
					}
					f.run(20 * time.Second) // ways are well again
					if f.led(time.Minute) == nil {
						t.Errorf("L3: all three are at stage %q, and nobody leads after a minute", stage)
					}
					f.run(30 * time.Second)
					for _, o := range watch {
						leader, _, known := o.Leader()
						if leads := f.led(time.Minute); leads != nil && (!known || leader.ID != leads.id) {
							t.Errorf("all are at stage %q and %s leads; an observer knows %q (%v)", stage, leads.id, leader.ID, o.Current())
						}
					}
				}
				f.end(t)
				for _, stage := range road {
					if f.leaderships[stage] == 0 {
						t.Errorf("nobody led at stage %q: this road proves little", stage)
					}
				}
			})
		})
	}
}

// TestAStragglerCannotLeadOnceTheOldStoreIsSealed: a program that knows the old
// store alone wakes up late.
func TestAStragglerCannotLeadOnceTheOldStoreIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start(migration.Both, nil)
		f.run(5 * time.Second)
		f.stop(f.nodes[0])
		leader := f.start(migration.To, nil)
		if f.led(time.Minute) != leader {
			t.Fatal("who holds both leases at stage to does not lead")
		}
		for _, stage := range []migration.Stage{"", migration.From} {
			straggler := f.start(stage, nil)
			f.run(time.Minute)
			if ev := straggler.Current(); straggler.Leading() || ev.Reason != "moved" {
				t.Errorf("a straggler at stage %q: %v; it must be told that the election has moved", stage, ev)
			}
		}
		f.kill(leader)
		f.run(5 * time.Minute)
		for _, n := range f.nodes {
			if n.Leading() {
				t.Errorf("%s leads by the old store though that is sealed", n.id)
			}
		}
		f.end(t)
	})
}

// TestAJumpFromTheOldStoreToTheNewMakesTwoLeadersWithoutTheSeal shows what the seal
// is for, and that this test would see it.
func TestAJumpFromTheOldStoreToTheNewMakesTwoLeadersWithoutTheSeal(t *testing.T) {
	for _, unsealed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1)
			old := f.start("", nil)
			f.run(5 * time.Second)
			jumper := f.start(migration.To, func(o *migration.Options) { o.Unsealed = unsealed })
			f.run(time.Minute)
			switch {
			case unsealed && len(f.twice) == 0:
				t.Error("unsealed, and no two leaders were seen: this test cannot see them")
			case !unsealed && len(f.twice) > 0:
				t.Errorf("sealed: %s", f.twice[0])
			case !unsealed:
				if leader, _, _ := jumper.Leader(); leader.ID != old.id {
					t.Errorf("who may not lead at stage to sees %q lead, and it is %q who holds the old lease", leader.ID, old.id)
				}
			}
			f.twice = nil
			f.end(t)
		})
	}
}

// TestAStragglerAtTheNewStoreCannotLeadOnceTheFleetIsBack: the record of the seal
// is cleared before the seal is broken.
func TestAStragglerAtTheNewStoreCannotLeadOnceTheFleetIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		for _, stage := range []migration.Stage{migration.Both, migration.To, migration.Both, migration.From} {
			n := f.start(stage, nil)
			if f.led(time.Minute) != n {
				t.Fatalf("alone at stage %q, it does not lead", stage)
			}
			if stage != migration.From {
				f.stop(n)
			}
		}
		straggler := f.start(migration.To, nil)
		f.run(5 * time.Minute)
		if straggler.Leading() {
			t.Error("a straggler at stage to leads by the new lease alone, and the old store is not sealed any more")
		}
		f.end(t)
	})
}
