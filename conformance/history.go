package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A History is what happened in a run, in any order. All times are on one clock that the processes share.
type History []Entry

// An Entry is one thing that happened to one process in one election.
type Entry struct {
	Process  string    `json:"process"` // one manager; a restarted process has another name
	Election string    `json:"election"`
	Kind     EntryKind `json:"kind"`
	Term     uint64    `json:"term,omitempty"`

	// From and To are when it began and ended. They are equal for an instant.
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// An EntryKind says what an entry is about.
type EntryKind string

const (
	Believed EntryKind = "believed" // Leading was true in Term at From and at To, the first and last sample
	Granted  EntryKind = "Acquire"  // a bid sent at From was answered Granted at To
	Renewed  EntryKind = "Renew"    // a renewal sent at From was answered Granted at To
	Released EntryKind = "Release"  // a release sent at From had succeeded at To
)

// A Leadership is that of a process in a term.
type Leadership struct {
	Process, Election string
	Term              uint64
}

// Leadership is the one that the entry is about.
func (e Entry) Leadership() Leadership { return Leadership{e.Process, e.Election, e.Term} }

// String describes the entry in one line.
func (e Entry) String() string {
	return fmt.Sprintf("%s %s %s term %d, %v to %v", e.Process, e.Kind, e.Election, e.Term, e.From, e.To)
}

// Check returns the rule violations in a history as one joined error, or nil. Each error quotes its rule.
func Check(h History) error {
	of := map[string]History{} // by election
	for _, e := range h {
		of[e.Election] = append(of[e.Election], e)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(of)) {
		one := of[name]
		calls := one.ofKind(steps...)
		errs = append(errs, checkBeliefs(one.ofKind(Believed)), checkTerms(calls), checkGrants(one))
	}
	return errors.Join(errs...)
}

// A violationError is about a rule of safety that was broken.
type violationError struct{ error }

func violation(rule, says string, format string, args ...any) error {
	return violationError{fmt.Errorf("%s (%s): %s", rule, says, fmt.Sprintf(format, args...))}
}

// isViolation reports whether a rule of safety was broken, beside whatever else happened.
func isViolation(err error) bool { return errors.As(err, new(violationError)) }

func (h History) ofKind(kinds ...EntryKind) History {
	isOther := func(e Entry) bool { return !slices.Contains(kinds, e.Kind) }
	return slices.DeleteFunc(slices.Clone(h), isOther)
}

func byFrom(a, b Entry) int { return cmp.Compare(a.From, b.From) }

// checkBeliefs is the most important check: no two intervals of leadership overlap.
func checkBeliefs(list History) error {
	// Of intervals that begin at the same time, the shorter comes first: in virtual time
	// a handover takes no time.
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Or(byFrom(a, b), cmp.Compare(a.To, b.To)) })
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.To > b.From {
			return violation("S1", "intervals in which Leading() is true in two processes never overlap",
				"%v; and %v", a, b)
		}
		list[i].To = max(a.To, b.To)
	}
	return nil
}

// steps are the calls about one term, in the only order in which they can succeed.
var steps = []EntryKind{Granted, Renewed, Released}

// byStep compares calls that succeeded: a term ends with its release, or with the grant of a greater term.
func byStep(a, b Entry) int {
	kind := cmp.Compare(slices.Index(steps, a.Kind), slices.Index(steps, b.Kind))
	return cmp.Or(cmp.Compare(a.Term, b.Term), kind)
}

// checkTerms checks that some order of the calls explains their answers: when a call was sent, none had
// succeeded that can only come after it. A late release changes nothing, so it may always succeed. Calls
// without an answer are left out: wherever they belong, they allow nothing that is wrong without them.
func checkTerms(list History) error {
	ended := slices.Clone(list)
	slices.SortStableFunc(list, byFrom)
	slices.SortStableFunc(ended, func(a, b Entry) int { return cmp.Compare(a.To, b.To) })
	terms := map[uint64]Entry{}
	var last Entry // the last step among those that had ended before
	i := 0
	for _, c := range list {
		for ; i < len(ended) && ended[i].To < c.From; i++ {
			if byStep(ended[i], last) > 0 {
				last = ended[i]
			}
		}

		if c.Kind == Renewed && byStep(c, last) < 0 {
			return violation("S7", "no term is renewed after its release, or after the grant of a later one",
				"%v; after %v", c, last)
		}
		if c.Kind != Granted {
			continue
		}
		if c.Term <= last.Term {
			return violation("S4", "each grant's term exceeds all earlier ones", "%v; after %v", c, last)
		}
		if twin, twice := terms[c.Term]; twice {
			return violation("S5", "no term is granted twice", "%v; and %v", c, twin)
		}
		terms[c.Term] = c
	}
	return nil
}

// checkGrants checks that each leadership began with a granted call.
func checkGrants(h History) error {
	won := map[Leadership]Entry{}
	for _, g := range h.ofKind(Granted) {
		won[g.Leadership()] = g
	}
	for _, b := range h.ofKind(Believed) {
		if g, ok := won[b.Leadership()]; !ok || g.From > b.From {
			return violation("S8", "only a bid that was answered Granted starts a leadership",
				"%v, without such an answer", b)
		}
	}
	return nil
}
