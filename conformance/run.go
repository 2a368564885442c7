package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/backend"
)

// A Case tests one rule that every backend must keep.
type Case struct {
	Rule     string             // letter and number of the rule; the package documentation explains the letters
	Name     string             // the rule in a few words, for the name of the subtest
	Says     string             // the rule in a sentence
	Contract bool               // the case calls a Backend directly; false: managers call it
	Fault    string             // the fault of [Store.Faults] that the case needs; "": none
	Run      func(trial *Trial) // tests the rule
	needs    []need             // without all of these the case does not apply
}

// Title is the name of the case's subtest.
func (c Case) Title() string { return c.Rule + " " + c.Name }

// OwnServer reports whether the case stops the server. Where cases share a server, run
// such cases separately, on a server of their own (see [Harness.Only]).
func (c Case) OwnServer() bool {
	return c.Fault == FaultRestart || c.Fault == FaultPause || c.Fault == FaultFailover
}

// Cases returns all cases in the order in which they run: contract cases, cases of managers on the
// store, storms.
func Cases() []Case {
	contract := slices.Concat(
		acquireCases, renewCases, markCases, releaseCases, termCases,
		observeCases, listenCases, requestCases, listCases, memberCases, nameCases, generalCases,
	)
	for i := range contract {
		contract[i].Contract = true
	}
	return slices.Concat(contract,
		faultCases, placeCases, livenessCases, stormCases,
	)
}

// plan returns the selected cases that apply to a store, of which b is a client, and the titles of those that
// do not, with the reasons. It skips a case only if b does not claim what it tests, or if the harness lacks
// the fault that it needs.
func plan(all []Case, h Harness, s Store, b backend.Backend) (run []Case, skipped []string) {
	f := facts{b.Guarantees(), s, b}
	for _, c := range all {
		if h.Only != nil && !h.Only(c) {
			continue
		}

		if why := c.lacks(f); why != "" {
			skipped = append(skipped, fmt.Sprintf("\n\t%s: %s", c.Title(), why))
			continue
		}
		run = append(run, c)
	}
	return run, skipped
}

// lacks returns why the case does not apply, or "".
func (c Case) lacks(f facts) (why string) {
	if c.Fault != "" && f.store.Faults[c.Fault] == nil {
		return "the harness has no function for the fault " + c.Fault
	}
	for _, n := range c.needs {
		if !n.is(f) {
			return n.without
		}
	}
	return ""
}

// Run tests a backend, with one subtest for each case that applies. At the end it logs
// the skipped cases with the reasons.
func Run(t *testing.T, h Harness) { runCases(t, Cases(), h) }

func runCases(t *testing.T, all []Case, h Harness) {
	var run []Case
	var skipped []string
	err := h.inBubble(t, func(t *testing.T) error {
		s := h.NewStore(t)
		b := s.Open(t)
		run, skipped = plan(all, h, s, b)
		return b.Close()
	})
	if err != nil {
		t.Fatalf("conformance: no case was run: %v", err)
	}
	if len(run) == 0 {
		t.Error("none of the selected cases applies")
	}
	if h.Parallel { // the longest cases start first, so that they do not run alone at the end
		slices.SortStableFunc(run, func(a, b Case) int { return cmp.Compare(b.weight(), a.weight()) })
	}
	t.Run("cases", func(t *testing.T) { // a group, so that the list of skipped cases comes last
		for _, c := range run {
			t.Run(c.Title(), func(t *testing.T) {
				if h.Parallel {
					t.Parallel()
				}
				if err := c.Try(t, h); err != nil {
					t.Errorf("%s: rule violated.\nThe rule: %s\n%v", c.Title(), c.Says, err)
				}
			})
		}
	})
	t.Logf("conformance: %d of %d cases run, %d skipped%s", len(run), len(all), len(skipped), strings.Join(skipped, ""))
}

// weight is greater for cases that take long.
func (c Case) weight() int {
	if c.Rule == "S1" || c.Rule[0] == 'L' {
		return 1
	}
	return 0
}

// maxTrials is how many trials a case has if all of them fail.
const maxTrials = 3

// Try runs one case on a fresh store and returns its error. It does not fail t, so that
// tests can run broken backends too. In real time a busy machine can delay everything, so
// Try logs a trial that failed and repeats it, with twice the TTL if the store allows it.
// The result of the last trial counts. A violation of safety counts at once: no delay
// excuses it.
func (c Case) Try(t *testing.T, h Harness) (err error) {
	if h.Virtual {
		return h.inBubble(t, func(t *testing.T) error { return c.runTrial(t, h) })
	}
	for {
		t.Run(fmt.Sprintf("trial %d", h.repeated+1), func(t *testing.T) { err = c.runTrial(t, h) })
		if err == nil || isViolation(err) || h.repeated == maxTrials-1 {
			return err
		}
		h.repeated++
		t.Logf("REPEATED: trial %d of %d failed and does not count: %v", h.repeated, maxTrials, err)
	}
}

// runTrial runs one trial on a fresh store.
func (c Case) runTrial(t *testing.T, h Harness) error {
	trial := newTrial(t, h)
	return errors.Join(try(func() { c.Run(trial) }), trial.end())
}

// inBubble runs f in a bubble if time is virtual. A deadlock or a leaked goroutine makes
// the bubble panic; inBubble returns the panic as an error, with the goroutines that are left.
func (h Harness) inBubble(t *testing.T, f func(*testing.T) error) (err error) {
	if !h.Virtual {
		return f(t)
	}
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("the bubble of virtual time panicked: %v\n%s", p, leftInBubbles()))
		}
	}()
	synctest.Test(t, func(t *testing.T) { err = f(t) })
	return err
}

// leftInBubbles returns the stacks of the goroutines that wait in bubbles.
func leftInBubbles() string {
	text := make([]byte, 1<<20)
	stacks := strings.Split(string(text[:runtime.Stack(text, true)]), "\n\n")
	stacks = slices.DeleteFunc(stacks, func(s string) bool { return !strings.Contains(s, "synctest bubble") })
	return strings.Join(stacks, "\n\n")
}
