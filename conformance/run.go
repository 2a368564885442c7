package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Case is one rule that every backend must keep, and the way to find out.
type Case struct {
	Rule  string                     // S1 … Q1 as in the documentation of this package; a letter and a number for the contract's verbs
	Name  string                     // in a few words, for the name of the subtest
	Says  string                     // the sentence that the case enforces
	Fault string                     // which of [Store.Faults] it needs; "": none
	Run   func(trial *Trial) error   // returns what is wrong, with what was expected and what was got
	skip  func(f facts) (why string) // nil: always run
}

// facts are what decides whether a case applies.
type facts struct {
	Harness
	backend.Guarantees
	store Store
}

// Skipped is a case that does not apply to a store, and why.
type Skipped struct {
	Case
	Why string
}

// String names the case and the reason.
func (s Skipped) String() string { return fmt.Sprintf("%s: %s", s.Title(), s.Why) }

// Title is the name of the case's subtest.
func (c Case) Title() string { return c.Rule + " " + c.Name }

// OwnServer reports whether the case stops the server, which other cases would have to
// suffer from. Where cases share one, these run by themselves ([Harness.Only]).
func (c Case) OwnServer() bool {
	return c.Fault == FaultRestart || c.Fault == FaultPause || c.Fault == FaultFailover
}

// Contract reports whether the case is about the contract alone: it calls a backend, and
// runs no manager.
func (c Case) Contract() bool { return !strings.ContainsAny(c.Rule[:1], "SLPQ") }

// Cases returns all cases, in the order in which they run: first those about the
// contract alone, then those with managers, then those that count calls.
func Cases() []Case {
	return slices.Concat(
		acquireCases, renewCases, markCases, releaseCases, termCases,
		observeCases, listenCases, requestCases, listCases, memberCases, nameCases, generalCases,
		safetyCases, faultCases, eventCases, functionCases, livenessCases, operatorCases, nominateCases,
		costCases, stormCases,
	)
}

// Plan returns which of the chosen cases apply to a store with these guarantees, and
// which do not, with the reasons. A claim that is made is tested: a case is skipped only
// for what a store does not claim or a harness cannot do.
func Plan(h Harness, s Store, g backend.Guarantees) (run []Case, skipped []Skipped) {
	f := facts{h.withDefaults(), g, s}
	for _, c := range Cases() {
		why := ""
		switch {
		case h.Only != nil && !h.Only(c):
			continue
		case c.Fault != "" && s.Faults[c.Fault] == nil:
			why = "the harness has no fault " + c.Fault
		case c.skip != nil:
			why = c.skip(f)
		}
		if why != "" {
			skipped = append(skipped, Skipped{c, why})
			continue
		}
		run = append(run, c)
	}
	return run, skipped
}

// Run judges a backend: one subtest for each case that applies. It ends with a
// list of what was skipped, by name and with the reason.
func Run(t *testing.T, h Harness) {
	var run []Case
	var skipped []Skipped
	err := h.inBubble(t, func(t *testing.T) error {
		s := h.NewStore(t)
		b := s.Open(t)
		run, skipped = Plan(h, s, b.Guarantees())
		return b.Close()
	})
	if err != nil {
		t.Fatalf("open a store to ask for its guarantees: %v", err)
	}
	if len(run) == 0 {
		t.Error("none of the chosen cases can run")
	}
	if h.Parallel { // what takes longest comes first, or it would be waited for at the end
		slices.SortStableFunc(run, func(a, b Case) int { return cmp.Compare(b.weight(), a.weight()) })
	}
	t.Run("cases", func(t *testing.T) { // a group, so that the list comes last
		for _, c := range run {
			t.Run(c.Title(), func(t *testing.T) {
				if h.Parallel {
					t.Parallel()
				}
				if err := c.Try(t, h); err != nil {
					t.Errorf("%s is broken.\nThe rule: %s\n%v", c.Title(), c.Says, err)
				}
			})
		}
	})
	var list strings.Builder
	for _, s := range skipped {
		fmt.Fprintf(&list, "\n\t%v", s)
	}
	t.Logf("conformance: %d of %d cases run, %d skipped%s", len(run), len(Cases()), len(skipped), list.String())
}

// weight is greater for cases that take long.
func (c Case) weight() int {
	if c.Rule == "S1" || c.Rule[0] == 'L' {
		return 1
	}
	return 0
}

// trials is how many a case has if the machine or the store leaves no verdict.
const maxTrials = 4

// Try runs one case on a fresh store and returns what is wrong. It does not fail
// t, so that broken backends can be tried too. In real time, a trial that is void is
// logged and made again when the machine has come to rest, with leases that bear more, as
// long as the store allows; if the last one is void, too, what it found counts.
func (c Case) Try(t *testing.T, h Harness) (err error) {
	if h.Virtual {
		return h.inBubble(t, func(t *testing.T) error {
			_, err := c.runTrial(t, h)
			return err
		})
	}
	for n := 1; n <= maxTrials; n++ {
		void := ""
		t.Run(fmt.Sprintf("trial %d", n), func(t *testing.T) { void, err = c.runTrial(t, h) })
		if void == "" {
			return err
		}
		t.Logf("VOID, trial %d of %d: %s; it found: %v", n, maxTrials, void, err)
		if n < maxTrials {
			waitUntilCalm(t.Context(), 30*time.Second<<n)
		}
		h.voidTrials = n
	}
	return err
}

// once is one trial, and why it is void if it is. What the judge has found always
// stands: two leaders are never excused.
func (c Case) runTrial(t *testing.T, h Harness) (void string, err error) {
	trial := newTrial(t, h)
	if err = c.Run(trial); err != nil {
		void = trial.void(err)
	}
	if wrong := trial.end(); wrong != nil {
		return "", errors.Join(err, wrong)
	}
	return void, err
}

// inBubble runs f in a bubble if time is virtual. A deadlock or a goroutine that
// is left behind makes the bubble panic; that too is what is wrong.
func (h Harness) inBubble(t *testing.T, f func(*testing.T) error) (err error) {
	if !h.Virtual {
		return f(t)
	}
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("the bubble of virtual time burst: %v", p))
		}
	}()
	synctest.Test(t, func(t *testing.T) { err = f(t) })
	return err
}
