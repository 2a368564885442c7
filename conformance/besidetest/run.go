// Package besidetest tests that a [beside.Lock] does what package beside relies on, rule by rule.
package besidetest

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/internal/testrules"
)

// A Harness is one place where locks are kept, and the other programs there.
type Harness struct {
	Open func(t testing.TB) beside.Lock // another client

	// Run runs another program's statement once for an election, and reports whether that program
	// leads then, as it sees it.
	Run func(t testing.TB, election, program string) bool

	// Threshold is how long another program must not have renewed before its lock can be taken.
	Threshold time.Duration

	// End ends another program, whose lock is free then. Nil: its lock shows renewals, and expires.
	End func(t testing.TB, program string)
}

// Rules are what each lock must do. Each of them needs a fresh place.
var Rules = []testrules.Rule[*Lab]{
	{Name: "what is taken is ours in its term", Test: ownTerm},
	{Name: "a taking over what has changed is refused", Test: changed},
	{Name: "another program's lock is firm, and its renewals show", Test: firm},
	{Name: "no other program takes a lock within ValidFor", Test: trust},
	{Name: "what is dropped can be taken at once by anybody", Test: dropped},
	{Name: "a late statement of another term changes nothing", Test: late},
	{Name: "no other program takes a sealed lock", Test: sealed},
}

// Run tests all rules. place makes a fresh place.
func Run(t *testing.T, place func(t testing.TB) Harness) {
	for _, r := range Rules {
		t.Run(r.Name, func(t *testing.T) { r.Test(NewLab(t, place(t))) })
	}
}

// A Lab is one place with a first client.
type Lab struct {
	testrules.T
	h    Harness
	lock beside.Lock
}

// NewLab opens the first client of a fresh place.
func NewLab(t testing.TB, h Harness) *Lab { return &Lab{T: testrules.T{TB: t}, h: h, lock: h.Open(t)} }

const election = "jobs"

func (l *Lab) read() beside.State {
	l.Helper()
	states, err := l.lock.Read(l.Context(), []string{election})
	l.Must(err == nil && len(states) == 1 && states[0].Err == nil, "one lock is read: %+v, %v", states, err)
	return states[0]
}

// owned is our lock in a term.
func owned(term uint64) beside.Owned { return beside.Owned{Election: election, ID: "go-a", Term: term} }

func (l *Lab) take(term uint64, was beside.State) beside.Result {
	l.Helper()
	r, err := l.lock.Take(l.Context(), []beside.Taking{{Owned: owned(term), Was: was}})
	l.Must(err == nil && len(r) == 1, "one taking: %d results, %v", len(r), err)
	return r[0]
}

func (l *Lab) keep(o beside.Owned) beside.Result {
	l.Helper()
	r, err := l.lock.Keep(l.Context(), []beside.Owned{o})
	l.Must(err == nil && len(r) == 1, "one lock is kept: %d results, %v", len(r), err)
	return r[0]
}

func (l *Lab) drop(term uint64) {
	l.Helper()
	err := l.lock.Drop(l.Context(), []beside.Owned{owned(term)})
	l.Must(err == nil, "one lock is dropped: %v", err)
}

func ownTerm(l *Lab) {
	got := l.take(7, l.read())
	l.Want(got.Outcome == backend.Granted && got.ValidFor > 0, "a free lock is taken: %+v", got)
	for _, s := range []beside.State{got.State, l.read()} {
		l.Want(s.Term == 7 && !s.Free && !s.Sealed, "taken in term 7, it is read as %+v", s)
	}
	kept := l.keep(owned(7))
	l.Want(kept.Outcome == backend.Granted && kept.State.Term == 7, "it is kept: %+v", kept)
}

func changed(l *Lab) {
	before := l.read()
	l.take(7, before)
	second := l.take(8, before)
	l.Want(second.Outcome == backend.Refused && second.State.Term == 7,
		"a second taking over one reading: %+v", second)

	l.drop(7)
	free := l.read()
	l.Want(l.h.Run(l, election, "other-1"), "another program cannot take a free lock")
	third := l.take(9, free)
	l.Want(third.Outcome == backend.Refused && third.State.Who == "other-1",
		"another program was quicker: %+v", third)
}

func firm(l *Lab) {
	l.Want(l.h.Run(l, election, "other-1"), "another program cannot take what nobody has")
	first := l.read()
	l.Want(first.Firm && first.Term == 0 && !first.Free && first.Who == "other-1",
		"another program leads: %+v", first)
	got := l.take(7, first)
	l.Want(got.Outcome == backend.Refused, "its lock is taken: %+v", got)

	if l.h.End != nil {
		l.h.End(l, "other-1")
	} else {
		l.Want(first.Watch >= l.h.Threshold, "another program's lock is to be watched for %v", first.Watch)
		l.until("a renewal to show", func() bool {
			l.h.Run(l, election, "other-1")
			return l.read().Version != first.Version
		})
	}
	l.until("it to expire", func() bool { return !l.read().Firm })
	got = l.take(7, l.read())
	l.Want(got.Outcome == backend.Granted, "an expired lock is taken: %+v", got)
}

// until waits for something that must happen within some thresholds.
func (l *Lab) until(what string, f func() bool) {
	l.Helper()
	for end := time.Now().Add(5 * l.h.Threshold); !f(); time.Sleep(l.h.Threshold / 100) {
		if time.Now().After(end) {
			l.Errorf("waited in vain for %s", what)
			return
		}
	}
}

func trust(l *Lab) {
	l.take(7, l.read())
	began := time.Now()
	kept := l.keep(owned(7))
	trusted := began.Add(kept.ValidFor)

	l.until("another program to take what is not renewed", func() bool {
		if !l.h.Run(l, election, "other-1") {
			return false
		}
		early := time.Until(trusted) // the server has decided before its answer came
		l.Want(early <= 0, "it takes the lock %v before ValidFor has ended", early)
		return true
	})
	lost := l.keep(owned(7))
	l.Want(lost.Outcome == backend.Refused && lost.State.Who == "other-1" && lost.Err != nil,
		"a lost lock is kept: %+v", lost)
}

func dropped(l *Lab) {
	l.take(7, l.read())
	l.drop(7)
	s := l.read()
	l.Want(s.Free && s.Term == 0 && !s.Firm, "a dropped lock is read as %+v", s)

	got := l.take(8, s)
	l.Want(got.Outcome == backend.Granted, "a member takes it: %+v", got)
	l.drop(8)
	l.Want(l.h.Run(l, election, "other-1"), "another program does not take it at once")
}

func late(l *Lab) {
	l.take(7, l.read())
	l.drop(7)
	l.take(8, l.read())
	l.drop(7)
	got := l.keep(owned(7))
	l.Want(got.Outcome == backend.Refused, "a late renewal in term 7: %+v", got)

	s := l.read()
	l.Want(s.Term == 8, "after a late release and a late renewal in term 7 it is %+v", s)
}

func sealed(l *Lab) {
	l.take(7, l.read())
	o := owned(7)
	o.Sealed = true
	got := l.keep(o)
	l.Want(got.Outcome == backend.Granted && got.State.Sealed && got.ValidFor > l.h.Threshold,
		"it is sealed: %+v", got)

	l.drop(7)
	end := time.Now().Add(l.h.Threshold + l.h.Threshold/2)
	for ; time.Now().Before(end); time.Sleep(l.h.Threshold / 10) {
		if l.h.Run(l, election, "other-1") {
			l.Error("another program takes a sealed lock")
			return
		}
	}
	s := l.read()
	l.Want(s.Sealed && !s.Firm, "a dropped seal is read as %+v", s)

	l.take(8, s)
	open := l.keep(owned(8))
	l.Want(open.Outcome == backend.Granted && !open.State.Sealed, "the seal is removed: %+v", open)
	l.drop(8)
	l.Want(l.h.Run(l, election, "other-1"), "another program cannot take it without the seal")
}
