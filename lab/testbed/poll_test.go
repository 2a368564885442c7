package testbed

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The host of a virtual machine may give its processors to other machines. poll excludes
// that time from a limit of a minute or more, up to three limits.
func TestPollExcludesStolenTime(t *testing.T) {
	const limit, bound = time.Minute, 59 * time.Second
	for _, c := range []struct {
		name  string
		limit time.Duration
		part  float64 // of the time is stolen
		want  time.Duration
	}{
		{"nothing", limit, 0, limit},
		{"half", limit, 0.5, 2 * limit},
		{"all but a tenth", limit, 0.9, 4 * limit},
		{"all", limit, 1, 4 * limit},
		{"all, of a bound", bound, 1, bound},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, last, calls := time.Now(), time.Time{}, 0
				stolen := func() time.Duration { // an hour was stolen before
					return time.Hour + time.Duration(c.part*float64(time.Since(began)))
				}
				no := errors.New("no")
				err := pollBy(c.limit, stolen, func() error { last = time.Now(); calls++; return no })
				if took := last.Sub(began); err != no || took < c.want || took > c.want+time.Second {
					t.Errorf("the last of %d calls began after %v and returned %v, want one after %v", calls, took, err, c.want)
				}
			})
		})
	}
}

func TestStolenTimeIsReadFromTheKernel(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  782 5 331 90210 44 0 17 600 3 0\ncpu0 391 2 165 45105 22 0 8 400 3 0\ncpu1 391 3 166 45105 22 0 9 200 0 0\nintr 7\n": 3 * time.Second,
		"cpu  782 5 331 90210 44 0 17 0 0 0\n": 0,
		"cpu  782 5 331 90210\n":               0, // an old kernel
		"":                                     0, // another operating system
	} {
		if got := stolenIn(stat); got != want {
			t.Errorf("%v stolen by %q, want %v", got, stat, want)
		}
	}
}
