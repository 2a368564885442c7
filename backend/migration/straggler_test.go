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

// checkStraggler fails the test if the straggler leads, or if the leader does not.
func checkStraggler(t *testing.T, what string, leader, straggler *election.Election) {
	t.Helper()
	time.Sleep(5 * time.Minute) // virtual
	if !leader.Leading() || straggler.Leading() {
		t.Errorf("S1: %s: the leader leads: %v; the straggler leads: %v (%v)", what, leader.Leading(), straggler.Leading(), straggler.Current())
	}
}

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

// errs are the errors in the events of a watcher.
type errs []string

func (e *errs) note(ev election.Event) {
	if ev.Err != nil {
		*e = append(*e, ev.Err.Error())
	}
}

func (e errs) String() string { return strings.Join(e, "; ") }

// Elections migrate from one ZooKeeper to a MySQL, and on to another ZooKeeper. A mark that
// said "curator" would mean the way back to members of the first migration.
func TestAStragglerFromASameKindStoreCannotLead(t *testing.T) {
	if _, err := migration.New(migration.Options{From: stores{}.open("zk1"), To: stores{}.open("my1"), Stage: migration.Both, ToName: "the second zk"}); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("a name with spaces: %v", err)
	}
	second := func(o *migration.Options) { o.ToName = "zk-2" }
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		synctest.Test(t, func(t *testing.T) {
			s := stores{}
			s.walk(t, "zk1", "my1", "", migration.From, migration.Both, migration.To)
			var received errs
			nameless, end := campaign(t, s.migrate(t, stage, "my1", "zk2"), "nameless", received.note)
			time.Sleep(time.Minute)
			end()
			if text := received.String(); nameless.Leading() || !strings.Contains(text, "to_name") {
				t.Errorf("at stage %q, to a second store of a kind without a name: leads: %v; its watchers receive %q", stage, nameless.Leading(), text)
			}
			s.walkAs(t, second, "my1", "zk2", migration.Both, migration.To)
			leader, stop := campaign(t, s.open("zk2"), "leader")
			time.Sleep(time.Minute)
			straggler, end := campaign(t, s.migrate(t, stage, "zk1", "my1"), "straggler")
			checkStraggler(t, "at stage "+string(stage)+" of the first migration", leader, straggler)
			end()
			stop()
		})
	}
}

// Marks could not tell the two stores apart.
func TestStoresOfOneKindNeedNames(t *testing.T) {
	s := stores{}
	o := migration.Options{From: s.open("my1"), To: s.open("my2"), Stage: migration.Both}
	if _, err := migration.New(o); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "to_name") {
		t.Errorf("from one to another: %v", err)
	}
	o.ToName = "my-2"
	if _, err := migration.New(o); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		second := func(o *migration.Options) { o.ToName = "my-2" }
		third := func(o *migration.Options) { o.FromName, o.ToName = "my-2", "my-3" }
		s.walkAs(t, second, "my1", "my2", "", migration.Both, migration.To)
		s.walkAs(t, third, "my2", "my3", migration.Both, migration.To)
		leader, stop := campaign(t, s.migrate(t, migration.To, "my2", "my3", third), "leader")
		time.Sleep(time.Minute)
		for _, stage := range []migration.Stage{"", migration.Both, migration.To} {
			straggler, end := campaign(t, s.migrate(t, stage, "my1", "my2", second), "straggler")
			checkStraggler(t, "at stage "+string(stage)+" from my1 to my2", leader, straggler)
			end()
		}
		stop()
	})
}

// Unsealed counts no more once the fleet has gone back. A member that elects by the new store
// alone cannot lead either.
func TestAnUnsealedStragglerCannotLeadAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stores{}
		for range 2 { // there, back, and there again
			s.walkAs(t, unsealed, "a", "b", "", migration.Both, migration.To)
			s.walk(t, "b", "", "")
			s.walkAs(t, unsealed, "a", "b", migration.To, migration.Both, migration.From)
		}
		leader, stop := campaign(t, s.open("a"), "leader")
		time.Sleep(time.Minute)
		for _, b := range []backend.Backend{s.migrate(t, migration.To, "a", "b", unsealed), s.open("b")} {
			straggler, end := campaign(t, b, "straggler")
			checkStraggler(t, "after the way back from an unsealed migration", leader, straggler)
			end()
		}
		stop()
	})
}

// The old store, manual without a directory, keeps nothing.
func TestAnUnsealedStragglerCannotLeadBesideManual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh, pinned := memory.New(), memory.New()
		at := func(stage migration.Stage) backend.Backend {
			from, err := manual.Open(manual.Options{Leader: "host-1", Store: pinned})
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
				e, stop := campaign(t, at(stage), "host-1")
				time.Sleep(2 * time.Minute)
				if !e.Leading() {
					t.Errorf("expected the named machine to lead at stage %q, got %v", stage, e.Current())
				}
				stop()
			}
		}
		leader, stop := campaign(t, at(""), "host-1")
		time.Sleep(time.Minute)
		for _, b := range []backend.Backend{at(migration.To), fresh.Backend()} {
			straggler, end := campaign(t, b, "host-2")
			checkStraggler(t, "after the way back to a named machine", leader, straggler)
			end()
		}
		stop()
	})
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
