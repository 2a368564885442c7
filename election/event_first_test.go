package election

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// The first known state, at the start or after an outage, is no change: First is set.
func TestTheFirstKnownStateIsMarkedFirst(t *testing.T) {
	inBubble(t, "a watcher", func(t *testing.T) {
		type told struct {
			kind           Kind
			first, current bool // as its reason
		}
		watched := func(e *Election) *[]told {
			var seen []told
			time.Sleep(time.Second) // for the first answer
			e.Watch(func(ev Event) { seen = append(seen, told{ev.Kind, ev.First, ev.Reason == ReasonCurrent}) })
			return &seen
		}
		store := memory.New()
		leader := alone(t, store.Backend(), Options{ID: "a"})
		own := watched(leader)
		leader.Lead(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []told{{Vacant, true, true}, {Elected, false, false}}; !slices.Equal(*own, want) {
			t.Errorf("the elected process got %v, want %v", *own, want)
		}

		wire := &script{Backend: store.Backend()}
		seen := watched(alone(t, wire, Options{ID: "b", Observer: true}))
		time.Sleep(time.Minute)
		closes(t, leader.manager)
		time.Sleep(time.Minute)
		wire.fail(backend.ErrUnavailable)
		time.Sleep(time.Minute)
		wire.heal()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []told{{Elected, true, true}, {Vacant, false, false}, {Unknown, false, false}, {Vacant, true, false}}; !slices.Equal(*seen, want) {
			t.Errorf("the observer got %v, want %v", *seen, want)
		}
	})
}

// A guard, or a kernel, that releases the lease of a process that has ended says so: nobody waits for its expiry.
func TestALeaseThatIsReleasedForTheDeadHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		dead, l := plant(t, store, DefaultTTL, time.Second)
		e := alone(t, store.Backend(), Options{})
		time.Sleep(time.Second)
		held := l.Held()
		held.End = backend.Failed
		noError(t, dead.Release(t.Context(), []backend.Held{held}))
		time.Sleep(DefaultTTL / 2)
		if ev := e.Current(); ev.Kind != Vacant || ev.Reason != ReasonFailed {
			t.Errorf("released as failed, and watchers hear %v", ev)
		}
	})
}
