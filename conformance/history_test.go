package conformance

import (
	"strings"
	"testing"
	"time"
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

func TestAnOrderlyHistoryBreaksNothing(t *testing.T) {
	if err := Check(History{
		answered("a", 1, 0, 1), believed("a", 1, 1, 9),
		went("a", Renewed, 1, 5), went("a", Released, 1, 9), went("a", Released, 1, 13), went("b", Renewed, 2, 14),
		answered("b", 2, 11, 12), believed("b", 2, 12, 20),
	}); err != nil {
		t.Fatalf("expected nil, got %v", err)
	}
}

func TestEachBrokenHistoryQuotesItsRule(t *testing.T) {
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
	} {
		err := Check(c.h)
		if err == nil || !strings.HasPrefix(err.Error(), c.rule+" (") {
			t.Errorf("%s: expected an error that quotes %s, got %v", c.name, c.rule, err)
		}
	}
}
