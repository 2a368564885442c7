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

// A grant is lost in a fail-over, and so is the first grant after it in a second
// one: the same record is seen twice, and what was lost in between must not be
// granted again.
func TestATermDoesNotRepeatWhenTwoFailoversLoseTheirGrants(t *testing.T) {
	last := uint64(now.UnixMicro())
	first, err := backend.NextTerm(last, true, 0, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	second, err := backend.NextTerm(last, true, 0, now.Add(2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if first <= last || second <= first {
		t.Errorf("terms %d, %d, %d do not grow", last, first, second)
	}
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
