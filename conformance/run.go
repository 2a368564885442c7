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
)

// A Case tests one rule that every backend must keep.
type Case struct {
	Rule  string // letter and number of the rule; the package comment explains the letters
	Name  string // the rule in a few words, for the name of the subtest
	Says  string // the rule in a sentence
	Fault string // the fault of [Store.Faults] that the case needs; "": none
	needs []need // without all of these the case does not apply

	calls func(t *Trial, a, b *client) // tests the rule with two clients, if it is one of the contract
	run   func(t *Trial)               // tests the rule with managers
}

// Contract reports whether the case calls a Backend directly. In the other cases managers call it.
func (c Case) Contract() bool { return c.calls != nil }

// Title is the name of the case's subtest.
func (c Case) Title() string { return c.Rule + " " + c.Name }

// OwnServer reports whether the case stops the server. Where cases share a server, run
// such cases separately, on a server of their own (see [Harness.Only]).
func (c Case) OwnServer() bool {
	return c.Fault == FaultRestart || c.Fault == FaultPause || c.Fault == FaultFailover
}

// Cases returns all cases in the order in which they run: those of the contract, of managers, and storms.
func Cases() []Case {
	return slices.Concat(
		acquireCases, renewCases, markCases, releaseCases, termCases,
		observeCases, listenCases, requestCases, listCases, memberCases, nameCases, generalCases,
		faultCases, placeCases, livenessCases, stormCases,
	)
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
		for _, c := range all {
			switch why := c.lacks(s, b); {
			case h.Only != nil && !h.Only(c):
			case why != "":
				skipped = append(skipped, fmt.Sprintf("\n\t%s: %s", c.Title(), why))
			default:
				run = append(run, c)
			}
		}
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
	reasons := strings.Join(skipped, "")
	t.Logf("conformance: %d of %d cases run, %d skipped%s", len(run), len(all), len(skipped), reasons)
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

// Try runs one case on a fresh store and returns its error. It does not fail t, so that tests can run broken
// backends too. In real time a busy machine can delay everything, so Try logs a trial that failed and repeats
// it, with twice the TTL if the store allows it. The result of the last trial counts. A violation of safety
// counts at once: no delay excuses it.
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
	trial := newTrial(t, c, h)
	run := func() { c.run(trial) }
	if c.Contract() {
		run = func() { c.calls(trial, trial.client("a"), trial.client("b")) }
	}
	return errors.Join(try(run), trial.end())
}

// inBubble runs f in a bubble if time is virtual. A deadlock or a leaked goroutine makes
// the bubble panic; inBubble returns the panic as an error, with the goroutines that are left.
func (h Harness) inBubble(t *testing.T, f func(*testing.T) error) (err error) {
	if !h.Virtual {
		return f(t)
	}
	defer func() {
		if p := recover(); p != nil {
			panicked := fmt.Errorf("the bubble of virtual time panicked: %v\n%s", p, leftInBubbles())
			err = errors.Join(err, panicked)
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
