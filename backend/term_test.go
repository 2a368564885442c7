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

// Another server always jumps, whatever its clock and the record say.
func TestATermOfAnotherServerJumps(t *testing.T) {
	us := uint64(now.UnixMicro())
	for _, last := range []uint64{0, us - 10*backend.TermJump, us, us + 10*backend.TermJump} {
		if got := next(t, last, true, now); got < max(last, us)+backend.TermJump {
			t.Errorf("NextTerm(%d, foreign) = %d, less than a jump from there", last, got)
		}
	}
}

func next(t *testing.T, last uint64, foreign bool, now time.Time) uint64 {
	t.Helper()
	term, err := backend.NextTerm(last, foreign, 0, now)
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
