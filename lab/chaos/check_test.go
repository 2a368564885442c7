//go:build linux

package chaos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

const ms = time.Millisecond

// good is a history that breaks no rule: a leads in term 1 and is killed, b takes over in term 2.
func good() *History {
	h := &History{Backend: "mysql on MariaDB", Fault: "kill -9", Seed: 7, Bound: bound(0), From: 0, To: 9000 * ms}
	add := func(l Line) { h.Lines = append(h.Lines, l) }
	entry := func(process, election string, kind conformance.EntryKind, term uint64, from, to time.Duration) conformance.Entry {
		return conformance.Entry{Process: process, Election: election, Kind: kind, Term: term, From: from, To: to}
	}
	leadership := func(process string, name string, term uint64, from, to time.Duration) {
		add(Line{Entry: entry(process, name, conformance.Granted, term, from-20*ms, from-10*ms), Method: "Acquire", Outcome: backend.Granted})
		add(Line{Entry: entry(process, name, conformance.Believed, term, from, to)})
		add(Line{Entry: entry(process, name, conformance.Renewed, term, to-500*ms, to-490*ms), Method: "Renew", Outcome: backend.Granted})
		h.Writes++
	}
	for _, process := range []string{"a1", "b1", "c1", "a2"} {
		add(Line{Entry: entry(process, "", Started, 0, 0, 0)})
	}
	for _, name := range elections {
		leadership("a1", name, 1, 1000*ms, 3000*ms)
		leadership("b1", name, 2, 5000*ms, 8000*ms)
	}
	h.Bands = []*Band{{Name: "kill -9", Target: "a1", From: 3000 * ms, To: 4000 * ms, proof: func(*Band, Line) bool { return true }}}
	h.Heals = []Heal{{At: 4000 * ms, Led: 5000 * ms, Live: true}}
	h.markHits()
	return h
}

func TestAGoodHistoryBreaksNoRule(t *testing.T) {
	h := good()
	if err := Check(h); err != nil {
		t.Error(err)
	}
	if h.Bites() != 1 || len(h.Gaps()) != 2 || h.Gaps()[0] != 2000*ms {
		t.Errorf("%d faults hit a leader, gaps %v; want 1 and two gaps of 2 s", h.Bites(), h.Gaps())
	}
}

// find returns the first line of a process of this kind.
func (h *History) find(process string, kind conformance.EntryKind, method string) *Line {
	for i, l := range h.Lines {
		if l.Process == process && l.Kind == kind && l.Method == method {
			return &h.Lines[i]
		}
	}
	panic("no such line")
}

// Each change breaks one rule, and Check must find it.
func TestEachBrokenRuleIsFound(t *testing.T) {
	for _, test := range []struct {
		rule, what string
		spoil      func(h *History)
	}{
		{"S1", "two processes believe that they lead, for a millisecond", func(h *History) { h.find("a1", conformance.Believed, "").To = 5001 * ms }},
		{"S4", "a later grant has no greater term", func(h *History) { h.find("b1", conformance.Granted, "Acquire").Term = 1 }},
		{"S5", "one term is granted twice", func(h *History) {
			l := h.find("b1", conformance.Granted, "Acquire")
			l.Term, l.From = 1, 985*ms
		}},
		{"S8", "belief without a grant", func(h *History) { h.find("b1", conformance.Believed, "").Term = 3 }},
		{"S7", "a renewal is confirmed after another grant", func(h *History) {
			l := h.find("a1", conformance.Renewed, "Renew")
			l.From, l.To = 6000*ms, 6010*ms
		}},
		{"S7", "a renewal is confirmed after the release", func(h *History) {
			l := *h.find("a1", conformance.Renewed, "Renew")
			l.Kind, l.From, l.To = conformance.Released, 1500*ms, 1510*ms
			h.Lines = append(h.Lines, l)
		}},
		{"L3", "no leader after a heal", func(h *History) { h.Heals[0].Live = false }},
		{"L3", "a leader too late", func(h *History) { h.Heals[0].Led = 60 * time.Second }},
		{"nothing was checked", "a history without renewals and grants", func(h *History) { h.Lines = h.Lines[:4] }},
		{"nothing was checked", "a history without writes", func(h *History) { h.Writes = 0 }},
	} {
		h := good()
		test.spoil(h)
		if err := Check(h); err == nil || !strings.Contains(err.Error(), test.rule) {
			t.Errorf("%s: %v, want %s", test.what, err, test.rule)
		}
	}
}

// A call with an unknown outcome neither breaks a rule nor excuses an impossible order.
func TestUnknownOutcomesHideNoImpossibleOrder(t *testing.T) {
	h := good()
	l := *h.find("c1", Started, "")
	l.Kind, l.Method, l.Outcome, l.Election, l.From, l.To = Called, "Acquire", backend.Unknown, elections[0], 5500*ms, 6500*ms
	h.Lines = append(h.Lines, l)
	if err := Check(h); err != nil {
		t.Errorf("an unknown bid: %v", err)
	}
	r := h.find("a1", conformance.Renewed, "Renew")
	r.From, r.To = 6000*ms, 6010*ms
	if err := Check(h); err == nil || !strings.Contains(err.Error(), "S7") {
		t.Errorf("%v, want S7", err)
	}
}

func TestAFaultThatHitNoLeaderDoesNotCount(t *testing.T) {
	h := good()
	quiet := &Band{Name: "cut off", Target: "c1", From: 5500 * ms, To: 5600 * ms, proof: byCall}
	ended := &Band{Name: "failover, writes lost", From: 2900 * ms, To: 2950 * ms, proof: byEnd}
	early := &Band{Name: "failover, writes lost", From: 100 * ms, To: 200 * ms, proof: byEnd}
	missed := &Band{Name: "kill -9", Target: "c1", From: 3000 * ms, To: 4000 * ms, proof: func(*Band, Line) bool { return false }}
	h.Bands = []*Band{quiet, ended, early, missed}
	h.markHits()
	if quiet.Bit || !ended.Bit || early.Bit || missed.Bit {
		t.Errorf("counted: cut of a follower %v, failover at the end of a leadership %v, failover before any %v, kill of a follower %v; want only the second",
			quiet.Bit, ended.Bit, early.Bit, missed.Bit)
	}
}

// A history that breaks a rule is kept as JSON. Reading it must give the same error.
func TestAKeptHistoryGivesTheSameError(t *testing.T) {
	h := good()
	h.find("a1", conformance.Believed, "").To = 5001 * ms
	text, err := json.Marshal(h)
	testbed.NoError(t, err)
	var again History
	testbed.NoError(t, json.Unmarshal(text, &again))
	if one, other := Check(h), Check(&again); other == nil || one.Error() != other.Error() {
		t.Errorf("%v; read again: %v", one, other)
	}
}
