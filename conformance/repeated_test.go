package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func TestATrialThatFailsIsRepeatedAndTheLastOneCounts(t *testing.T) {
	late, twoLeaders := errors.New("late"), violation("S1", "no election has two leaders", "a and b")
	for what, c := range map[string]struct {
		errs   []error // of the trials, one after another
		trials int
		want   error
	}{
		"no failure":              {[]error{nil}, 1, nil},
		"one failure":             {[]error{late, nil}, 2, nil},
		"two failures":            {[]error{late, late, nil}, 3, nil},
		"every trial fails":       {[]error{late, late, late, nil}, 3, late},
		"two leaders":             {[]error{twoLeaders, nil}, 1, twoLeaders},
		"two leaders, repeatedly": {[]error{late, errors.Join(late, twoLeaders), nil}, 2, twoLeaders},
	} {
		n := 0
		got := Case{run: func(*Trial) { n++; require(c.errs[n-1]) }}.Try(t, overMemory(time.Hour, 0))
		if !errors.Is(got, c.want) || n != c.trials {
			t.Errorf("%s: %v after %d trials; want %v after %d", what, got, n, c.want, c.trials)
		}
	}
}

func TestACaseEndsWhereItRequiresWhatIsNotTrue(t *testing.T) {
	h, wrong, ended := overMemory(time.Second, 0), errors.New("wrong"), true
	h.Virtual = true
	err := Case{run: func(*Trial) {
		require(nil, wrong)
		ended = false
	}}.Try(t, h)
	if !errors.Is(err, wrong) || !ended {
		t.Errorf("got %v, want %v; the case ended there: %v", err, wrong, ended)
	}
}

func TestATrialInVirtualTimeIsNotRepeated(t *testing.T) {
	h := overMemory(time.Second, 0)
	h.Virtual = true
	n := 0
	err := Case{run: func(*Trial) { n++; fail("wrong") }}.Try(t, h)
	if err == nil || n != 1 {
		t.Errorf("%v after %d trials, want an error after 1", err, n)
	}
}

func TestAMachineThatIsLateExcusesNoSecondLeader(t *testing.T) {
	n := 0
	err := Case{run: func(trial *Trial) {
		n++
		trial.checker = newChecker(trial)
		trial.checker.history = History{answered("a", 1, 0, 0), answered("b", 2, 0, 0), believed("a", 1, 1, 3), believed("b", 2, 2, 4)}
		fail("late")
	}}.Try(t, overMemory(time.Second, 0))
	if err == nil || !strings.Contains(err.Error(), "S1 (") || n != 1 {
		t.Errorf("%v after %d trials, want a violation of S1 after 1", err, n)
	}
}

func TestATrialIsRepeatedWithALongerTTL(t *testing.T) {
	for _, c := range []struct {
		maxTTL time.Duration // of the store
		want   []time.Duration
	}{
		{0, []time.Duration{time.Second, time.Second, time.Second}},
		{3 * time.Second, []time.Duration{time.Second, 2 * time.Second, 2 * time.Second}},
		{time.Minute, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
	} {
		h := overMemory(time.Second, c.maxTTL)
		var got []time.Duration
		Case{run: func(trial *Trial) {
			got = append(got, trial.TTL)
			fail("late")
		}}.Try(t, h)
		if !slices.Equal(got, c.want) {
			t.Errorf("with a MaxTTL of %v the trials had the TTLs %v, want %v", c.maxTTL, got, c.want)
		}
	}
}

// overMemory is a harness in real time over stores with a MaxTTL.
func overMemory(ttl, maxTTL time.Duration) Harness {
	return Harness{TTL: ttl, NewStore: inMemory(func(s *memory.Store) backend.Backend { return limitedStore{s.Backend(), maxTTL} })}
}

type limitedStore struct {
	backend.Backend
	maxTTL time.Duration
}

func (k limitedStore) Guarantees() backend.Guarantees {
	g := k.Backend.Guarantees()
	g.MaxTTL = k.maxTTL
	return g
}
