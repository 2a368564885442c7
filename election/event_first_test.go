package election_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// The first known state, at the start or after an outage, is no change: First is set.
func TestTheFirstKnownStateIsMarkedFirst(t *testing.T) {
	bubble(t, "a watcher", func(t *testing.T) {
		store := memory.New()
		start := func(b backend.Backend, o election.Options) (*election.Manager, *election.Election) {
			m, err := election.New(b, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close(context.Background()) })
			e, err := m.Join("x")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // for the first answer
			return m, e
		}
		type told struct {
			kind  election.Kind
			first bool
		}
		var own, seen []told
		leads := func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil }
		leader, e := start(store.Backend(), election.Options{ID: "a"})
		e.Watch(func(ev election.Event) { own = append(own, told{ev.Kind, ev.First}) })
		e.Lead(leads)
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []told{{election.Vacant, true}, {election.Elected, false}}; !slices.Equal(own, want) {
			t.Errorf("the elected process got %v, want %v", own, want)
		}

		wire := conformance.Wrap(store.Backend())
		_, e = start(wire, election.Options{ID: "b", Observer: true})
		e.Watch(func(ev election.Event) { seen = append(seen, told{ev.Kind, ev.First}) })
		time.Sleep(time.Minute)
		leader.Close(context.Background())
		time.Sleep(time.Minute)
		wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{Err: backend.ErrUnavailable} })
		time.Sleep(time.Minute)
		wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{} })
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []told{{election.Elected, true}, {election.Vacant, false}, {election.Unknown, false}, {election.Vacant, true}}
		if !slices.Equal(seen, want) {
			t.Errorf("the observer got %v, want %v", seen, want)
		}
	})
}
