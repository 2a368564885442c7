package election_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

func call(s election.Stats, kind string) election.CallStats {
	i := slices.IndexFunc(s.Calls, func(c election.CallStats) bool { return c.Kind == kind })
	return s.Calls[i]
}

func changes(s election.Stats, kind election.Kind, reason election.Reason, own bool) uint64 {
	for _, c := range s.Changes {
		if c.Kind == kind && c.Reason == reason && c.Own == own {
			return c.Count
		}
	}
	return 0
}

func TestStatsCountCallsDurationsAndRemainingTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := conformance.Wrap(memory.New().Backend())
		m, err := election.New(wire, election.Options{ID: "a", TTL: 16 * time.Second, RenewEvery: 4 * time.Second, ClockMargin: 4 * time.Second, CallTimeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		if err := join(t, m, "jobs").Lead(nil); err != nil {
			t.Fatal(err)
		}
		for m.Stats().Remaining.Count == 0 {
			time.Sleep(time.Millisecond)
		}
		const renewals = 25 // both snapshots are a second after a renewal
		time.Sleep(time.Second)
		before := m.Stats()
		wire.Decide(func(c conformance.Call) conformance.Fate { return conformance.Fate{After: 6 * time.Millisecond} })
		time.Sleep(renewals * 4 * time.Second)
		after := m.Stats()

		if after.Backend != "memory" || after.TTL != 16*time.Second {
			t.Errorf("backend %q and TTL %v, want memory and 16s", after.Backend, after.TTL)
		}
		took, old := call(after, "renew").Took, call(before, "renew").Took
		if n := took.Count - old.Count; n != renewals {
			t.Errorf("%d renewals were counted, %d were made", n, renewals)
		}
		if d := took.Sum - old.Sum; d != renewals*6*time.Millisecond {
			t.Errorf("renewals took %v together, want %d times 6ms", d, renewals)
		}
		i := slices.Index(took.Bounds, 8*time.Millisecond)
		if n := took.Counts[i] - old.Counts[i]; n != renewals {
			t.Errorf("%d renewals lie between 4ms and 8ms, want all %d: %+v", n, renewals, took)
		}
		// A renewal is sent at each tick of 4 s and confirmed 6 ms later. The trust from the
		// tick before lasts 16 s - 4 s, so 8 s - 6 ms remain.
		left, old := after.Remaining, before.Remaining
		i = slices.Index(left.Bounds, 8*time.Second)
		if n := left.Counts[i] - old.Counts[i]; n != renewals {
			t.Errorf("%d renewals had between 7s and 8s of trust left, want all %d: %+v", n, renewals, left)
		}
		if d := (left.Sum - old.Sum) / renewals; d > 8*time.Second-6*time.Millisecond || d < 8*time.Second-7*time.Millisecond {
			t.Errorf("%v were left in the mean, want 8s less 6ms", d)
		}
	})
}

func TestStatsCountErrorsByClassAndChangesByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := conformance.Wrap(memory.New().Backend())
		m, err := election.New(wire, election.Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		e := join(t, m, "jobs")
		lead := func() {
			t.Helper()
			if err := e.Run(t.Context(), nil); err == nil {
				t.Fatal("ran without a function")
			}
			l, err := e.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Resign(t.Context())
			time.Sleep(time.Minute)
		}
		lead()
		if n := changes(m.Stats(), election.Elected, election.ReasonElected, true); n != 1 {
			t.Errorf("%d leaderships have begun, want 1: %+v", n, m.Stats().Changes)
		}
		if n := changes(m.Stats(), election.Vacant, election.ReasonResigned, true); n != 1 {
			t.Errorf("%d leaderships were resigned, want 1: %+v", n, m.Stats().Changes)
		}
		for _, c := range m.Stats().Calls {
			if c.Unavailable+c.Denied+c.Invalid > 0 {
				t.Errorf("errors on a store that made none: %+v", c)
			}
		}

		classes := []error{backend.ErrUnavailable, backend.ErrDenied, fmt.Errorf("of no class")}
		for _, class := range classes {
			l, err := e.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wire.Decide(func(c conformance.Call) (f conformance.Fate) {
				if c.Method == "Renew" {
					f.Err = class
				}
				return f
			})
			<-l.Context().Done()
			wire.Decide(nil)
			if err := l.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s := m.Stats()
		unreachable, denied := changes(s, election.Vacant, election.ReasonUnreachable, true), changes(s, election.Vacant, election.ReasonDenied, true)
		if unreachable != 2 || denied != 1 {
			t.Errorf("%d leaderships were lost because renewals failed and %d because they were denied, want 2 and 1: %+v", unreachable, denied, s.Changes)
		}
		r := call(s, "renew")
		if r.Denied == 0 || r.Unavailable <= r.Denied || r.Invalid != 0 {
			t.Errorf("renewals failed twice as unavailable and once as denied, and were counted as %+v", r)
		}
		if c := call(s, "acquire"); c.Took.Count < 4 || c.Unavailable+c.Denied+c.Invalid > 0 {
			t.Errorf("bids did not fail, and were counted as %+v", c)
		}
	})
}

func TestStatsCountWatchersAndWaitingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, memory.New(), election.Options{ID: "a"})
		names := []string{"c", "a", "b"}
		for _, name := range names {
			join(t, m, name)
		}
		synctest.Wait() // all have been observed
		release := make(chan struct{})
		stop := m.Watch(func(election.Event) { <-release })
		m.Election("a").Watch(func(election.Event) {})
		synctest.Wait()
		if s := m.Stats(); s.Watchers != 2 || s.Waiting != 2 {
			t.Errorf("%d watchers with %d events, want 2 watchers, one of which is handling the first of three events", s.Watchers, s.Waiting)
		}
		close(release)
		synctest.Wait()
		if s := m.Stats(); s.Waiting != 0 {
			t.Errorf("%d events wait for watchers that are idle", s.Waiting)
		}
		stop()
		if s := m.Stats(); s.Watchers != 1 {
			t.Errorf("%d watchers after one of two has stopped", s.Watchers)
		}
		for i, e := range m.Elections() {
			if want := []string{"a", "b", "c"}[i]; e.Name() != want {
				t.Errorf("election %d is %q, want %q", i, e.Name(), want)
			}
		}
		before := m.Stats()
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := m.Stats(); call(s, "observe").Took.Count < call(before, "observe").Took.Count || len(m.Elections()) != 0 {
			t.Error("after Close the counters are lost, or elections are left")
		}
	})
}
