package backend_test

import (
	"errors"
	"math"
	"math/rand/v2"
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

// A grant is lost in a failover, and so is the first grant after it in a second one: the same record is seen twice, and what
// was lost in between must not be granted again. Terms may be ahead of the clock, after earlier failovers.
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

// A server of Redis is restarted every hour for a month, and its leader changes every minute. A day after
// the last restart any other store grants greater terms.
func TestTermsAreNeverMoreThanADayAheadOfTheClock(t *testing.T) {
	at, last, written := now, uint64(0), now
	grant := func(jump bool) {
		t.Helper()
		term := next(t, backend.GrownTerm(last, written, at), jump, at)
		if lead := term - uint64(at.UnixMicro()); term <= last || lead > backend.TermJump {
			t.Fatalf("%v: term %d after %d, %v ahead of the clock", at, term, last, time.Duration(lead)*time.Microsecond)
		}
		last, written = term, at
	}
	for range 30 * 24 {
		grant(true)
		for range 59 {
			at = at.Add(time.Minute)
			grant(false)
		}
		at = at.Add(time.Minute)
	}
	for range 25 {
		at = at.Add(time.Hour)
		grant(false)
	}
	if first := next(t, 0, false, at.Add(37*time.Minute)); first <= last {
		t.Errorf("the first term in another store is %d, more than a day after terms were ahead of the clock, the last of them %d", first, last)
	}
}

// A host took its local time for UTC, or UTC for its local time.
func TestAJumpExceedsWhatAClockInTheWrongZoneGranted(t *testing.T) {
	for _, wrong := range []time.Duration{-12 * time.Hour, 14 * time.Hour, 24*time.Hour - time.Second} {
		lost := next(t, 0, false, now.Add(wrong))
		if got := next(t, 0, true, now.Add(time.Second)); got <= lost {
			t.Errorf("a clock that was wrong by %v: term %d after %d", wrong, got, lost)
		}
	}
}

// A jump that was granted by a clock in the wrong zone is exceeded if it is known, now and whenever the
// store is damaged again. The terms stay a number of days ahead of the clock.
func TestAJumpFromATermAheadOfAllJumpsIsSomeDaysAheadOfTheClock(t *testing.T) {
	for what, last := range map[string]uint64{"a zone": next(t, 0, true, now.Add(14*time.Hour)), "forged": uint64(now.UnixMicro()) * 2} {
		at := now.Add(time.Minute)
		for range 24 {
			term := next(t, last, true, at)
			if ahead := term - uint64(at.UnixMicro()); term <= last || term > last+backend.TermJump || ahead%backend.TermJump != 0 {
				t.Errorf("%s: a jump from %d to %d at %v", what, last, term, at)
			}
			if lost := next(t, last, true, at.Add(time.Minute)); lost <= term {
				t.Errorf("%s: jumps from %d: %d, and a minute later %d", what, last, term, lost)
			}
			last, at = term, at.Add(time.Hour)
		}
		if ahead := last - uint64(at.UnixMicro()); what == "a zone" && ahead > 2*backend.TermJump {
			t.Errorf("24 jumps added up to %v", time.Duration(ahead)*time.Microsecond)
		}
	}
}

// A grant has a term that exceeds those of all earlier ones, though the store has lost any number of
// them: if it knows that something may be lost, and if it only lost grants of its own, and does not know.
// Clocks differ by less than the TTL that passes before the next grant.
func TestTermsGrowWhateverIsLost(t *testing.T) {
	type grant struct {
		term uint64
		at   time.Time // by the clock of its server
	}
	const ttl = 10 * time.Second
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		real, history, safe := now, []grant{{}}, 0 // what came before safe may not be the last one known without a jump
		for i := range 200 {
			real = real.Add(ttl + time.Duration(r.Int64N(int64(time.Hour)>>r.IntN(12))))
			at := real.Add(time.Duration(r.Int64N(int64(ttl)) - int64(ttl/2)))
			jump := r.IntN(4) == 0
			known := history[len(history)-1]
			switch {
			case jump:
				known = history[r.IntN(len(history))]
			case r.IntN(3) == 0:
				known = history[safe+r.IntN(len(history)-safe)]
			}
			got := grant{next(t, backend.GrownTerm(known.term, known.at, at), jump, at), at}
			if last := history[len(history)-1]; got.term <= last.term {
				t.Fatalf("seed %d: grant %d has term %d after %d; known was %d, jump %v", seed, i, got.term, last.term, known.term, jump)
			}
			if history = append(history, got); jump {
				safe = len(history) - 1
			}
		}
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
