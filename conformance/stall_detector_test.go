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

func TestAStallMakesATrialVoid(t *testing.T) {
	wrong, unavailable := errors.New("wrong"), fmt.Errorf("bid: %w", backend.ErrUnavailable)
	for what, c := range map[string]struct {
		stall  time.Duration
		harmed bool
		found  error
		void   bool
	}{
		"a long stall":                           {time.Second, false, wrong, true},
		"a long stall with a harmed store":       {time.Second, true, wrong, true},
		"a short stall":                          {2 * stallThreshold, false, wrong, false},
		"a short stall, no answer":               {2 * stallThreshold, false, unavailable, true},
		"a short stall, no answer, harmed store": {2 * stallThreshold, true, unavailable, false},
		"no stall, although no answer came":      {0, false, unavailable, false},
	} {
		trial := &Trial{Harness: Harness{TTL: 2 * time.Second}, tb: t, harmed: c.harmed, stalls: &stallDetector{lastTick: time.Now().Add(-c.stall)}}
		if why := trial.void(c.found); (why != "") != c.void {
			t.Errorf("%s: the reason for a void trial is %q; want one: %v", what, why, c.void)
		}
	}
	virtual := &Trial{Harness: Harness{TTL: time.Second}, tb: t}
	if why := virtual.void(unavailable); why != "" {
		t.Errorf("a trial in virtual time is void: %s", why)
	}
}

// hangingStore is a store that never answers in time.
type hangingStore struct{ backend.Backend }

func (hangingStore) Members(ctx context.Context, _ string, _ int) ([]backend.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Microsecond) // it gives up before its caller does
	defer cancel()
	<-ctx.Done()
	return nil, fmt.Errorf("members: %w", ctx.Err())
}

// A backend that asks several servers gives up a call before its deadline.
func TestACallThatWasGivenUpMakesATrialVoid(t *testing.T) {
	for what, c := range map[string]struct {
		inner backend.Backend
		void  bool
	}{
		"a call that was given up early": {hangingStore{memory.New().Backend()}, true},
		"a call that was answered":       {memory.New().Backend(), false},
	} {
		w := Wrap(c.inner)
		w.Members(t.Context(), "", 1)
		trial := &Trial{Harness: Harness{TTL: time.Hour}, tb: t, stalls: &stallDetector{lastTick: time.Now()}, nodes: []*node{{wire: w}}}
		if why := trial.void(errors.New("late")); (why != "") != c.void {
			t.Errorf("%s: the reason for a void trial is %q; want one: %v", what, why, c.void)
		}
	}
}

func TestATimeoutTellsWhichCallsFailed(t *testing.T) {
	w := Wrap(hangingStore{memory.New().Backend()})
	w.Members(t.Context(), "", 1)
	trial := &Trial{tb: t, nodes: []*node{{wire: w, key: "a#0"}}}
	err := trial.waitUntil(0, "a leader", func() bool { return false })
	for _, want := range []string{"a leader", "1 of 1 calls of a#0 failed", "Members", context.DeadlineExceeded.Error()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of a wait is %v; want it to contain %q", err, want)
		}
	}
}

func TestTheStopwatchDoesNotCountStalls(t *testing.T) {
	w := &stallDetector{lastTick: time.Now()}
	trial := &Trial{stalls: w}
	began := trial.startStopwatch()
	began.startedAt = began.startedAt.Add(-time.Minute)
	w.lastTick = w.lastTick.Add(-50 * time.Second)
	if ran := trial.elapsed(began); ran < 9*time.Second || ran > 30*time.Second {
		t.Errorf("after a minute with a stall of 50 s the stopwatch shows %v, want about 10 s", ran)
	}
}

func TestAVoidTrialIsRepeatedAndTheLastOneCounts(t *testing.T) {
	late := errors.New("late")
	h := Harness{TTL: time.Hour, NewStore: func(testing.TB) Store {
		store := memory.New()
		return Store{Open: func(testing.TB) backend.Backend { return store.Backend() }}
	}}
	for what, c := range map[string]struct {
		stalled int // the first trials, in which the machine stalls
		late    int // the first trials, which fail
		trials  int
		want    error
	}{
		"no stall, no failure":                  {0, 0, 1, nil},
		"no stall, a failure":                   {0, 1, 1, late},
		"stalls, no failure":                    {maxTrials, 0, 1, nil},
		"one stall with a failure":              {1, 1, 2, nil},
		"one stall, but every trial fails":      {1, maxTrials, 2, late},
		"every trial has a stall and fails":     {maxTrials, maxTrials, maxTrials, late},
		"the trials fail as long as they stall": {2, 2, 3, nil},
	} {
		n := 0
		got := Case{Run: func(trial *Trial) error {
			n++
			if n <= c.stalled {
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

// limitedStore is a store with a MaxTTL.
type limitedStore struct {
	backend.Backend
	maxTTL time.Duration
}

func (k limitedStore) Guarantees() backend.Guarantees {
	g := k.Backend.Guarantees()
	g.MaxTTL = k.maxTTL
	return g
}

func TestAVoidTrialIsRepeatedWithALongerTTL(t *testing.T) {
	for _, c := range []struct {
		maxTTL, greatestTTL time.Duration // of the store, of the harness
		want                []time.Duration
	}{
		{0, time.Minute, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{0, 0, []time.Duration{time.Second, time.Second, time.Second, time.Second}},
		{3 * time.Second, 0, []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}},
		{time.Minute, 0, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
	} {
		h := Harness{TTL: time.Second, GreatestTTL: c.greatestTTL, NewStore: func(testing.TB) Store {
			store := memory.New()
			return Store{Open: func(testing.TB) backend.Backend { return limitedStore{store.Backend(), c.maxTTL} }}
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
			t.Errorf("with a MaxTTL of %v and a GreatestTTL of %v, the trials had the TTLs %v, want %v", c.maxTTL, c.greatestTTL, got, c.want)
		}
	}
}
