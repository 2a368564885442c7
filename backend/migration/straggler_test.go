package migration_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// besides fails the test if a straggler leads beside a leader, or if that does not lead.
func besides(t *testing.T, what string, leader, straggler *election.Election) {
	t.Helper()
	time.Sleep(5 * time.Minute) // virtual
	if !leader.Leading() || straggler.Leading() {
		t.Errorf("S1: %s: the leader leads: %v; the straggler leads: %v (%v)", what, leader.Leading(), straggler.Leading(), straggler.Current())
	}
}

// leadsFor returns for how many of the next 600 seconds e leads.
func leadsFor(e *election.Election) (led int) {
	for range 600 {
		time.Sleep(time.Second) // virtual
		if e.Leading() {
			led++
		}
	}
	return led
}

// errs are the errors that a watcher was told of.
type errs []string

func (e *errs) note(ev election.Event) {
	if ev.Err != nil {
		*e = append(*e, ev.Err.Error())
	}
}

func (e errs) String() string { return strings.Join(e, "; ") }

// TestWhoIsOnARoadFromAnotherStoreOfItsKindCannotLead: from one ZooKeeper to a MySQL, and on
// to another ZooKeeper. A mark that said "zookeeper" would mean the way back to who is
// still on the first road.
func TestWhoIsOnARoadFromAnotherStoreOfItsKindCannotLead(t *testing.T) {
	if _, err := migration.New(migration.Options{From: town{}.open("zk1"), To: town{}.open("my1"), Stage: migration.Both, ToName: "the second zk"}); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("a name with spaces: %v", err)
	}
	second := func(o *migration.Options) { o.ToName = "zk-2" }
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := town{}
			s.walk(t, "zk1", "my1", "", migration.From, migration.Both, migration.To)
			var told errs
			nameless, end := lives(t, s.goes(t, stage, "my1", "zk2"), "nameless", told.note)
			time.Sleep(time.Minute)
			end()
			if text := told.String(); nameless.Leading() || !strings.Contains(text, "to_name") {
				t.Errorf("at stage %q, to a second store of a kind without a name: leads: %v; its watchers are told %q", stage, nameless.Leading(), text)
			}
			s.walkAs(t, second, "my1", "zk2", migration.Both, migration.To)
			leader, stop := lives(t, s.open("zk2"), "leader")
			time.Sleep(time.Minute)
			straggler, end := lives(t, s.goes(t, stage, "zk1", "my1"), "straggler")
			besides(t, "at stage "+string(stage)+" of the first road", leader, straggler)
			end()
			stop()
		})
	}
}

// TestStoresOfOneKindNeedNames: marks could not tell them apart.
func TestStoresOfOneKindNeedNames(t *testing.T) {
	s := town{}
	o := migration.Options{From: s.open("my1"), To: s.open("my2"), Stage: migration.Both}
	if _, err := migration.New(o); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "to_name") {
		t.Errorf("from one to another: %v", err)
	}
	o.ToName = "my-2"
	if _, err := migration.New(o); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		second := func(o *migration.Options) { o.ToName = "my-2" }
		third := func(o *migration.Options) { o.FromName, o.ToName = "my-2", "my-3" }
		s.walkAs(t, second, "my1", "my2", "", migration.Both, migration.To)
		s.walkAs(t, third, "my2", "my3", migration.Both, migration.To)
		leader, stop := lives(t, s.goes(t, migration.To, "my2", "my3", third), "leader")
		time.Sleep(time.Minute)
		for _, stage := range []migration.Stage{"", migration.Both, migration.To} {
			straggler, end := lives(t, s.goes(t, stage, "my1", "my2", second), "straggler")
			besides(t, "at stage "+string(stage)+" of the road from my1 to my2", leader, straggler)
			end()
		}
		stop()
	})
}

// TestWhoIsLeftAtUnsealedCannotLeadOnceTheFleetIsBack: an operator's word that nobody
// elects by the old store does not hold for ever. Nor can who elects by the new store alone.
func TestWhoIsLeftAtUnsealedCannotLeadOnceTheFleetIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := town{}
		for range 2 { // there, back, and there again
			s.walkAs(t, unsealed, "a", "b", "", migration.Both, migration.To)
			s.walk(t, "b", "", "")
			s.walkAs(t, unsealed, "a", "b", migration.To, migration.Both, migration.From)
		}
		leader, stop := lives(t, s.open("a"), "leader")
		time.Sleep(time.Minute)
		for _, b := range []backend.Backend{s.goes(t, migration.To, "a", "b", unsealed), s.open("b")} {
			straggler, end := lives(t, b, "straggler")
			besides(t, "back from an unsealed road", leader, straggler)
			end()
		}
		stop()
	})
}

// TestWhoIsLeftAtUnsealedCannotLeadBesideAPinnedMachine is the same with a store that
// keeps nothing.
func TestWhoIsLeftAtUnsealedCannotLeadBesideAPinnedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh, pinned := memory.New(), memory.New()
		at := func(stage migration.Stage) backend.Backend {
			from, err := manual.Open(t.Context(), manual.Options{Leader: "host-1", Store: pinned})
			if err != nil {
				t.Fatal(err)
			}
			if stage == "" {
				return from
			}
			return road(t, migration.Options{From: from, To: fresh.Backend(), Stage: stage, Unsealed: stage == migration.To})
		}
		for range 2 {
			for _, stage := range []migration.Stage{"", migration.Both, migration.To, migration.Both} {
				e, stop := lives(t, at(stage), "host-1")
				time.Sleep(2 * time.Minute)
				if !e.Leading() {
					t.Errorf("the pinned machine does not lead at stage %q: %v", stage, e.Current())
				}
				stop()
			}
		}
		leader, stop := lives(t, at(""), "host-1")
		time.Sleep(time.Minute)
		for _, b := range []backend.Backend{at(migration.To), fresh.Backend()} {
			straggler, end := lives(t, b, "host-2")
			besides(t, "back at a pinned machine", leader, straggler)
			end()
		}
		stop()
	})
}

// TestTheNewStoreIsTriedBeforeTheOldOneIsAsked: who enters the road where the new store
// cannot be used takes nothing from those who need the old one alone. If it can, but
// grants nothing, the old lease is given back at once.
func TestTheNewStoreIsTriedBeforeTheOldOneIsAsked(t *testing.T) {
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
				var told errs
				e, stop := lives(t, road(t, migration.Options{From: old, To: wire, ToName: "new", Stage: stage}), "enters", told.note)
				time.Sleep(time.Minute) // nobody else is there, and so it bids
				other, end := lives(t, p.old.Backend(), "from")
				led := leadsFor(other)
				n := old.Count("Acquire")
				if e.Leading() || led < 540 || n > 0 && denied != "Acquire" {
					t.Errorf("at stage %q, and the new store denies every %s: %d bids for old leases; a member at stage from has led for %d of 600 seconds", stage, denied, n, led)
				}
				end()
				wire.Decide(nil)
				time.Sleep(10 * time.Minute)
				if !e.Leading() {
					t.Errorf("at stage %q, and the new store denies nothing any more: %v", stage, e.Current())
				}
				stop()
				if text := told.String(); !strings.Contains(text, backend.ErrDenied.Error()) {
					t.Errorf("at stage %q its watchers are not told why it did not lead when every %s was denied, but %q", stage, denied, text)
				}
			})
		}
	}
}

// TestAHungNewStoreDoesNotKeepTheOldLease: those who need that alone go on.
func TestAHungNewStoreDoesNotKeepTheOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(false, 0)
		wire := conformance.Wrap(p.new.Backend())
		_, stop := lives(t, road(t, migration.Options{From: p.old.Backend(), To: wire, ToName: "new", Stage: migration.Both}), "both")
		time.Sleep(time.Minute) // it has led, so that the new store is known to work
		wire.Decide(func(c conformance.Call) conformance.Fate {
			return conformance.Fate{Lost: c.Method == "Acquire" || c.Method == "Renew" || c.Method == "Release"}
		})
		other, end := lives(t, p.old.Backend(), "from")
		led := leadsFor(other)
		if led < 540 {
			t.Errorf("a member at stage from has led for %d of 600 seconds while the new store hung", led)
		}
		end()
		wire.Decide(nil)
		stop()
	})
}
