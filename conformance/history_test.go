package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
)

const s = time.Second

func belief(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Believed, Term: term, From: from * s, To: to * s}
}

func grant(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Granted, Term: term, From: from * s, To: to * s}
}

func run(process string, term uint64, from, to time.Duration) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Ran, Term: term, From: from * s, To: to * s}
}

// tell is an event; leader is a nonce, and the process's own is its name.
func tell(process string, at time.Duration, state election.Kind, leader string, term uint64, reason election.Reason) Entry {
	return Entry{Process: process, Election: "jobs", Kind: Told, State: state, Leader: leader, Leading: leader == process, Term: term, Reason: reason, From: at * s, To: at * s}
}

func TestAnOrderlyHistoryBreaksNothing(t *testing.T) {
	if err := Check(History{
		tell("a", 0, election.Unknown, "", 0, election.ReasonCurrent),
		grant("a", 1, 0, 1), belief("a", 1, 1, 9), run("a", 1, 1, 10),
		tell("a", 1, election.Elected, "a", 1, election.ReasonElected),
		tell("a", 9, election.Vacant, "", 1, election.ReasonResigned),
		grant("b", 2, 11, 12), belief("b", 2, 12, 20), run("b", 2, 12, 20),
		tell("a", 12, election.Elected, "b", 2, election.ReasonElected),
		{Process: "a", Election: "jobs", Kind: Final, State: election.Elected, Leader: "b", Term: 2},
	}); err != nil {
		t.Fatalf("expected nil, got %v", err)
	}
}

func TestEachBrokenHistoryQuotesItsRule(t *testing.T) {
	current := tell("a", 0, election.Vacant, "", 0, election.ReasonCurrent)
	for _, c := range []struct {
		name, rule string
		h          History
	}{
		{"two leaders", "S1", History{grant("a", 1, 0, 1), grant("b", 2, 4, 5), belief("a", 1, 1, 9), belief("b", 2, 5, 12)}},
		{"two leaders, the first one very long", "S1", History{grant("a", 1, 0, 1), grant("b", 2, 4, 5), grant("c", 3, 7, 8), belief("a", 1, 1, 90), belief("b", 2, 5, 6), belief("c", 3, 8, 9)}},
		{"a term that goes back", "S4", History{grant("a", 2, 0, 1), grant("b", 1, 2, 3)}},
		{"a term granted twice", "S5", History{grant("a", 2, 0, 3), grant("b", 2, 1, 4)}},
		{"a belief without an answer", "S8", History{belief("a", 1, 1, 9)}},
		{"another's answer", "S8", History{grant("b", 1, 0, 1), belief("a", 1, 1, 9)}},
		{"two functions at a time", "S11", History{run("a", 1, 0, 9), run("a", 2, 8, 10)}},
		{"no current state first", "S10", History{tell("a", 1, election.Elected, "b", 1, election.ReasonElected)}},
		{"a term that goes back in events", "S10", History{current, tell("a", 1, election.Elected, "b", 2, election.ReasonElected), tell("a", 2, election.Elected, "c", 1, election.ReasonElected)}},
		{"an own leadership told twice", "S10", History{current, tell("a", 1, election.Elected, "a", 1, election.ReasonElected), tell("a", 2, election.Vacant, "", 1, election.ReasonRefused), tell("a", 3, election.Elected, "a", 1, election.ReasonElected)}},
		{"the same state twice", "S10", History{current, tell("a", 1, election.Elected, "b", 1, election.ReasonElected), tell("a", 2, election.Elected, "b", 1, election.ReasonElected)}},
		{"an own loss left unsaid", "S10", History{current, tell("a", 1, election.Elected, "a", 1, election.ReasonElected), tell("a", 3, election.Elected, "b", 2, election.ReasonElected)}},
		{"an own leadership left unsaid", "S10", History{current, grant("a", 1, 1, 2), belief("a", 1, 2, 3)}},
		{"another final state", "S10", History{current, {Process: "a", Election: "jobs", Kind: Final, State: election.Elected, Leader: "b", Term: 2}}},
	} {
		err := Check(c.h)
		if err == nil || !strings.HasPrefix(err.Error(), c.rule+" (") {
			t.Errorf("%s: expected an error that quotes %s, got %v", c.name, c.rule, err)
		}
	}
}
