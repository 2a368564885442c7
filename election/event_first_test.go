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

// A guard, or a kernel, that releases the lease of a process that has ended says so: nobody waits for its expiry.
func TestALeaseThatIsReleasedForTheDeadHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		dead := store.Backend()
		seen, err := dead.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if err != nil {
			t.Fatal(err)
		}
		bid := backend.Bid{Election: "jobs", Candidate: backend.Candidate{ID: "dead", Nonce: backend.NewNonce()}, TTL: election.DefaultTTL, Renew: time.Second, Expected: seen[0]}
		answers, err := dead.Acquire(t.Context(), []backend.Bid{bid})
		if err != nil || answers[0].Outcome != backend.Granted {
			t.Fatal(answers, err)
		}
		m, err := election.New(store.Backend(), election.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := join(t, m, "jobs")
		time.Sleep(time.Second)

		held := answers[0].Lease.Held()
		held.End = backend.Failed
		if err := dead.Release(t.Context(), []backend.Held{held}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(election.DefaultTTL / 2)
		if ev := e.Current(); ev.Kind != election.Vacant || ev.Reason != election.ReasonFailed {
			t.Errorf("released as failed, and watchers hear %v", ev)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
