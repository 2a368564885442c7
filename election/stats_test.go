package election

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func (s *Stats) of(kind string) CallStats {
	return s.Calls[slices.IndexFunc(s.Calls, func(c CallStats) bool { return c.Kind == kind })]
}

func (s *Stats) own(kind Kind, reason Reason) uint64 {
	i := slices.IndexFunc(s.Changes, func(c Change) bool { return c.Kind == kind && c.Reason == reason && c.Own })
	if i < 0 {
		return 0
	}
	return s.Changes[i].Count
}

func TestStatsCountCallsDurationsAndRemainingTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 6 * time.Millisecond
		store := scripted()
		store.lag = took
		m := manage(t, store, Options{TTL: 16 * time.Second, RenewEvery: 4 * time.Second, ClockMargin: 4 * time.Second, CallTimeout: 3 * time.Second})
		noError(t, joined(t, m, "jobs").Lead(nil))
		for m.Stats().Remaining.Count == 0 {
			time.Sleep(time.Millisecond)
		}
		const renewals = 25 // both snapshots are a second after a renewal
		time.Sleep(time.Second)
		before := m.Stats()
		time.Sleep(renewals * 4 * time.Second)
		after := m.Stats()

		if after.Backend != "memory" || after.TTL != 16*time.Second {
			t.Errorf("backend %q and TTL %v, want memory and 16s", after.Backend, after.TTL)
		}
		now, old := after.of("renew").Took, before.of("renew").Took
		i := slices.Index(now.Bounds, 8*time.Millisecond)
		if n, sum := now.Count-old.Count, now.Sum-old.Sum; n != renewals || sum != renewals*took || now.Counts[i]-old.Counts[i] != renewals {
			t.Errorf("%d renewals were counted, which took %v together; want %d of 6ms, between 4ms and 8ms: %+v", n, sum, renewals, now)
		}
		// A renewal is sent at each tick of 4 s and confirmed 6 ms later. The trust from the
		// tick before lasts 16 s - 4 s, so 8 s - 6 ms remain.
		left, old := after.Remaining, before.Remaining
		i = slices.Index(left.Bounds, 8*time.Second)
		if n := left.Counts[i] - old.Counts[i]; n != renewals {
			t.Errorf("%d renewals had between 7s and 8s of trust left, want all %d: %+v", n, renewals, left)
		}
		if d := (left.Sum - old.Sum) / renewals; d > 8*time.Second-took || d < 8*time.Second-took-time.Millisecond {
			t.Errorf("%v were left in the mean, want 8s less 6ms", d)
		}
	})
}

func TestStatsCountErrorsByClassAndChangesByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		e := alone(t, store, Options{})
		stats := func() *Stats { s := e.manager.Stats(); return &s }
		lead := func(renewals error) {
			t.Helper()
			l, err := e.Campaign(t.Context())
			noError(t, err)
			store.fail(renewals, callRenew)
			time.Sleep(time.Minute)
			store.heal()
			noError(t, l.Resign(t.Context()))
		}
		lead(nil)
		if s := stats(); s.own(Elected, ReasonElected) != 1 || s.own(Vacant, ReasonResigned) != 1 {
			t.Errorf("one leadership has begun and was resigned, counted were %+v", s.Changes)
		}
		for _, c := range stats().Calls {
			if c.Unavailable+c.Denied+c.Invalid > 0 {
				t.Errorf("errors on a store that made none: %+v", c)
			}
		}

		for _, class := range []error{backend.ErrUnavailable, backend.ErrDenied, errors.New("of no class")} {
			lead(class)
		}
		s := stats()
		if s.own(Vacant, ReasonUnreachable) != 2 || s.own(Vacant, ReasonDenied) != 1 {
			t.Errorf("two leaderships were lost because renewals failed and one because they were denied, counted were %+v", s.Changes)
		}
		if r := s.of("renew"); r.Denied == 0 || r.Unavailable <= r.Denied || r.Invalid != 0 {
			t.Errorf("renewals failed twice as unavailable and once as denied, and were counted as %+v", r)
		}
		if c := s.of("acquire"); c.Took.Count < 4 || c.Unavailable+c.Denied+c.Invalid > 0 {
			t.Errorf("bids did not fail, and were counted as %+v", c)
		}
	})
}

func TestStatsCountWatchersAndWaitingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		for _, name := range []string{"c", "a", "b"} {
			joined(t, m, name)
		}
		synctest.Wait() // all have been observed
		release := make(chan struct{})
		stop := m.Watch(func(Event) { <-release })
		m.Election("a").Watch(func(Event) {})
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
		closes(t, m)
		if s := m.Stats(); s.of("observe").Took.Count < before.of("observe").Took.Count || len(m.Elections()) != 0 {
			t.Error("after Close the counters are lost, or elections are left")
		}
	})
}
