package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
)

const second = time.Second

func believed(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Believed, Term: term, From: from * second, To: to * second}
}

func answered(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Granted, Term: term, From: from * second, To: to * second}
}

// went is a call about a term that succeeded at this time.
func went(process string, kind EntryKind, term uint64, at time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: kind, Term: term, From: at * second, To: at * second}
}

func ran(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Ran, Term: term, From: from * second, To: to * second}
}

// event is an event that a process's watcher received. leader is a nonce; here the nonce
// of a process is its name.
func event(process string, at time.Duration, state election.Kind, leader string, term uint64, reason election.Reason) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Told, State: state, Leader: leader, Leading: leader == process, Term: term, Reason: reason, From: at * second, To: at * second}
}

func TestAnOrderlyHistoryBreaksNothing(t *testing.T) {
	if err := Check(History{
		event("a", 0, election.Unknown, "", 0, election.ReasonCurrent),
		answered("a", 1, 0, 1), believed("a", 1, 1, 9), ran("a", 1, 1, 10),
		event("a", 1, election.Elected, "a", 1, election.ReasonElected),
		event("a", 9, election.Vacant, "", 1, election.ReasonResigned),
		went("a", Renewed, 1, 5), went("a", Released, 1, 9), went("a", Released, 1, 13), went("b", Renewed, 2, 14),
		answered("b", 2, 11, 12), believed("b", 2, 12, 20), ran("b", 2, 12, 20),
		event("a", 12, election.Elected, "b", 2, election.ReasonElected),
	}); err != nil {
		t.Fatalf("expected nil, got %v", err)
	}
}

func TestEachBrokenHistoryQuotesItsRule(t *testing.T) {
	current := event("a", 0, election.Vacant, "", 0, election.ReasonCurrent)
	for _, c := range []struct {
		name, rule string
		h          History
	}{
		{"two leaders", "S1", History{answered("a", 1, 0, 1), answered("b", 2, 4, 5), believed("a", 1, 1, 9), believed("b", 2, 5, 12)}},
		{"two leaders, the first one very long", "S1", History{answered("a", 1, 0, 1), answered("b", 2, 4, 5), answered("c", 3, 7, 8), believed("a", 1, 1, 90), believed("b", 2, 5, 6), believed("c", 3, 8, 9)}},
		{"a term that decreases", "S4", History{answered("a", 2, 0, 1), answered("b", 1, 2, 3)}},
		{"a term granted twice", "S5", History{answered("a", 2, 0, 3), answered("b", 2, 1, 4)}},
		{"a renewal after the release", "S7", History{answered("a", 1, 0, 1), went("a", Released, 1, 2), went("a", Renewed, 1, 3)}},
		{"a renewal after another grant", "S7", History{answered("a", 1, 0, 1), answered("b", 2, 2, 3), went("a", Renewed, 1, 4)}},
		{"a leadership without an answer", "S8", History{believed("a", 1, 1, 9)}},
		{"an answer to another process", "S8", History{answered("b", 1, 0, 1), believed("a", 1, 1, 9)}},
		{"two functions at a time", "S11", History{ran("a", 1, 0, 9), ran("a", 2, 8, 10)}},
		{"a first event that is not the current state", "S10", History{event("a", 1, election.Elected, "b", 1, election.ReasonElected)}},
		{"events whose terms decrease", "S10", History{current, event("a", 1, election.Elected, "b", 2, election.ReasonElected), event("a", 2, election.Elected, "c", 1, election.ReasonElected)}},
		{"two events for one leadership of this process", "S10", History{current, event("a", 1, election.Elected, "a", 1, election.ReasonElected), event("a", 2, election.Vacant, "", 1, election.ReasonRefused), event("a", 3, election.Elected, "a", 1, election.ReasonElected)}},
		{"the same state twice", "S10", History{current, event("a", 1, election.Elected, "b", 1, election.ReasonElected), event("a", 2, election.Elected, "b", 1, election.ReasonElected)}},
		{"no event for a loss of this process", "S10", History{current, event("a", 1, election.Elected, "a", 1, election.ReasonElected), event("a", 3, election.Elected, "b", 2, election.ReasonElected)}},
		{"no event for a leadership of this process", "S10", History{current, answered("a", 1, 1, 2), believed("a", 1, 2, 3)}},
	} {
		err := Check(c.h)
		if err == nil || !strings.HasPrefix(err.Error(), c.rule+" (") {
			t.Errorf("%s: expected an error that quotes %s, got %v", c.name, c.rule, err)
		}
	}
}
