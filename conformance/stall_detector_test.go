package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func TestAMachineThatStoodStillIsNoVerdict(t *testing.T) {
	wrong, away := errors.New("wrong"), fmt.Errorf("bid: %w", backend.ErrUnavailable)
	for what, c := range map[string]struct {
		stood  time.Duration
		harmed bool
		found  error
		excuse bool
	}{
		"for a second":                                    {time.Second, false, wrong, true},
		"for a second, and the store was harmed":          {time.Second, true, wrong, true},
		"for a moment":                                    {2 * stallThreshold, false, wrong, false},
		"for a moment, and the store did not answer":      {2 * stallThreshold, false, away, true},
		"for a moment, and a harmed store did not answer": {2 * stallThreshold, true, away, false},
		"not at all, though the store did not answer":     {0, false, away, false},
	} {
		trial := &Trial{Harness: Harness{TTL: 2 * time.Second}, tb: t, harmed: c.harmed, stalls: &stallDetector{lastTick: time.Now().Add(-c.stood)}}
		if why := trial.void(c.found); (why != "") != c.excuse {
			t.Errorf("%s: void because %q; want that: %v", what, why, c.excuse)
		}
	}
	virtual := &Trial{Harness: Harness{TTL: time.Second}, tb: t}
	if why := virtual.void(away); why != "" {
		t.Errorf("in virtual time nothing stands still, and nothing is excused: %s", why)
	}
}

// asleep is a store that answers nothing in time.
type hangingStore struct{ backend.Backend }

func (hangingStore) Members(ctx context.Context, _ string, _ int) ([]backend.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Microsecond) // to keep time for something else
	defer cancel()
	<-ctx.Done()
	return nil, fmt.Errorf("members: %w", ctx.Err())
}

func TestACallThatWasGivenUpIsNoVerdictOnManagers(t *testing.T) {
	for what, c := range map[string]struct {
		inner  backend.Backend
		excuse bool
	}{
		"given up early": {hangingStore{memory.New().Backend()}, true},
		"answered":       {memory.New().Backend(), false},
	} {
		w := Wrap(c.inner)
		w.Members(t.Context(), "", 1)
		trial := &Trial{Harness: Harness{TTL: time.Hour}, tb: t, stalls: &stallDetector{lastTick: time.Now()}, nodes: []*node{{wire: w}}}
		if why := trial.void(errors.New("late")); (why != "") != c.excuse {
			t.Errorf("%s: void because %q; want that: %v", what, why, c.excuse)
		}
	}
}

func TestWhoWaitsInVainIsToldWhatTheStoreHasDenied(t *testing.T) {
	w := Wrap(hangingStore{memory.New().Backend()})
	w.Members(t.Context(), "", 1)
	trial := &Trial{tb: t, nodes: []*node{{wire: w, key: "a#0"}}}
	err := trial.waitUntil(0, "a leader", func() bool { return false })
	for _, want := range []string{"a leader", "of 1 calls of a#0 1 failed", "Members", context.DeadlineExceeded.Error()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("waited in vain: %v; want it to say %q", err, want)
		}
	}
}

func TestTimeInWhichTheMachineStoodStillDoesNotCount(t *testing.T) {
	w := &stallDetector{lastTick: time.Now()}
	trial := &Trial{stalls: w}
	began := trial.startStopwatch()
	began.startedAt = began.startedAt.Add(-time.Minute) // so long ago
	w.lastTick = w.lastTick.Add(-50 * time.Second)
	if ran := trial.elapsed(began); ran < 9*time.Second || ran > 30*time.Second {
		t.Errorf("of a minute the machine stood still for 50 s: %v count", ran)
	}
}

func TestAVoidTrialIsMadeAgainAndTheLastOneCounts(t *testing.T) {
	late := errors.New("late")
	h := Harness{TTL: time.Hour, NewStore: func(testing.TB) Store {
		store := memory.New()
		return Store{Open: func(testing.TB) backend.Backend { return store.Backend() }}
	}}
	for what, c := range map[string]struct {
		standing int // trials during which the machine stands still
		late     int // trials that find something
		trials   int
		want     error
	}{
		"nothing is wrong":                          {0, 0, 1, nil},
		"something is wrong":                        {0, 1, 1, late},
		"a standing machine, and nothing is wrong":  {maxTrials, 0, 1, nil},
		"a machine that stands still once":          {1, 1, 2, nil},
		"something is wrong, and it stood still":    {1, maxTrials, 2, late},
		"a machine that stands still all the time":  {maxTrials, maxTrials, maxTrials, late},
		"something is wrong only while it stood so": {2, 2, 3, nil},
	} {
		n := 0
		got := Case{Run: func(trial *Trial) error {
			n++
			if n <= c.standing {
				trial.stalls.mu.Lock()
				trial.stalls.lastTick = trial.stalls.lastTick.Add(-2 * time.Hour)
				trial.stalls.mu.Unlock()
			}
			if n <= c.late {
				return late
			}
			return nil
		}}.Try(t, h)
		if got != c.want || n != c.trials {
			t.Errorf("%s: %v after %d trials; want %v after %d", what, got, n, c.want, c.trials)
		}
	}
}

// known is a store that says how long leases may be.
type limitedStore struct {
	backend.Backend
	maxTTL time.Duration
}

func (k limitedStore) Guarantees() backend.Guarantees {
	g := k.Backend.Guarantees()
	g.MaxTTL = k.maxTTL
	return g
}

func TestAVoidTrialIsMadeAgainWithLeasesThatBearMoreIfTheStoreAllowsThem(t *testing.T) {
	for _, c := range []struct {
		most, said time.Duration
		want       []time.Duration
	}{
		{0, time.Minute, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{0, 0, []time.Duration{time.Second, time.Second, time.Second, time.Second}},
		{3 * time.Second, 0, []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}},
		{time.Minute, 0, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
	} {
		h := Harness{TTL: time.Second, GreatestTTL: c.said, NewStore: func(testing.TB) Store {
			store := memory.New()
			return Store{Open: func(testing.TB) backend.Backend { return limitedStore{store.Backend(), c.most} }}
		}}
		var got []time.Duration
		Case{Run: func(trial *Trial) error {
			got = append(got, trial.TTL)
			trial.stalls.mu.Lock()
			trial.stalls.lastTick = trial.stalls.lastTick.Add(-time.Hour)
			trial.stalls.mu.Unlock()
			return errors.New("late")
		}}.Try(t, h)
		if !slices.Equal(got, c.want) {
			t.Errorf("where leases may last %v (a harness says: %v): void trials had leases of %v, want %v", c.most, c.said, got, c.want)
		}
	}
}
