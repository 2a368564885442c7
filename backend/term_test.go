package backend_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

var now = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func TestATermExceedsTheLastTheFloorAndTheMicrosecondsOfTheClock(t *testing.T) {
	us := uint64(now.UnixMicro())
	for _, c := range []struct {
		what        string
		last, floor uint64
		want        uint64
	}{
		{"first ever", 0, 0, us},
		{"the record was deleted, and the floor is remembered", 0, us + 10, us + 11},
		{"the clock is behind the record", us + 1000, 0, us + 1001},
		{"the clock is behind record and floor", us + 1000, us + 2000, us + 2001},
		{"the clock is ahead", us - 1000, us - 500, us},
	} {
		got, err := backend.NextTerm(c.last, false, c.floor, now)
		if err != nil || got != c.want {
			t.Errorf("%s: NextTerm(%d, floor %d) = %d, %v, want %d", c.what, c.last, c.floor, got, err, c.want)
		}
	}
}

// A grant is lost in a failover, and so is the first grant after it in a second
// one: the same record is seen twice, and what was lost in between must not be
// granted again. Terms may be ahead of the clock, after earlier failovers.
func TestATermDoesNotRepeatWhenTwoFailoversLoseTheirGrants(t *testing.T) {
	us := uint64(now.UnixMicro())
	for what, last := range map[string]uint64{"no record": 0, "behind the clock": us - 1000, "ahead of the clock": us + 5*backend.TermJump} {
		first := next(t, last, true, now.Add(time.Minute))
		second := next(t, last, true, now.Add(2*time.Minute))
		if first <= last || second <= first {
			t.Errorf("%s: terms %d, %d, %d do not grow", what, last, first, second)
		}
	}
}

// A failover, and later both rows of the election are deleted.
func TestATermExceedsThatOfAnEarlierJumpWhenTheRecordIsGone(t *testing.T) {
	for name, at := range map[string]time.Time{"2026": now, "2000": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		jumped := next(t, uint64(at.UnixMicro()), true, at)
		for _, later := range []time.Duration{time.Second, time.Hour, 24 * time.Hour, 1000 * 24 * time.Hour} {
			if got := next(t, 0, true, at.Add(later)); got <= jumped {
				t.Errorf("%s, %v later: term %d after %d", name, later, got, jumped)
			}
		}
	}
}

// However many failovers, restores and grants there were, and in whatever order: a server that knows
// of none of them, or of some, grants a greater term.
func TestJumpsDoNotAddUp(t *testing.T) {
	at, last := now, uint64(0)
	for i := range 1000 {
		at = at.Add(time.Duration(i%7)*time.Second + time.Millisecond)
		last = next(t, last, i%3 != 0, at)
		later := at.Add(time.Millisecond)
		for _, known := range []uint64{0, uint64(at.UnixMicro()), last - 1, last} {
			if got := next(t, known, true, later); got <= last {
				t.Fatalf("after %d grants, two of three of them jumps: a server that knows of %d grants %d after %d", i+1, known, got, last)
			}
		}
	}
}

// Terms that were forged, or granted by a clock that was set back since: a jump exceeds the last
// one by so much that a grant which a failover loses is not repeated.
func TestAJumpFromATermAheadOfAllJumpsIsGreat(t *testing.T) {
	last := uint64(now.UnixMicro()) * 2
	first, second := next(t, last, true, now), next(t, last, true, now.Add(time.Second))
	if first < last+backend.TermJump || second <= first {
		t.Errorf("jumps from %d: %d, and a second later %d", last, first, second)
	}
}

func next(t *testing.T, last uint64, jump bool, now time.Time) uint64 {
	t.Helper()
	term, err := backend.NextTerm(last, jump, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func TestAPlantedTermIsRefusedBeforeItOverflows(t *testing.T) {
	for _, last := range []uint64{math.MaxUint64, math.MaxInt64} {
		if term, err := backend.NextTerm(last, true, 0, now); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("NextTerm(%d) = %d, %v, want ErrDenied", last, term, err)
		}
	}
	for range 3 {
		last := uint64(math.MaxInt64 / 2)
		if term, err := backend.NextTerm(last, true, 0, now.Add(100*365*24*time.Hour)); err != nil || term > math.MaxInt64 {
			t.Errorf("NextTerm(%d) = %d, %v, want a term that fits a signed column", last, term, err)
		}
	}
}
