package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// If the store is unreachable, Close, Run and Resign wait no longer than the lease lasts: after that
// a release has no effect. The test tries each way in which a store can be unreachable.
func TestCloseWaitsNoLongerThanTheLease(t *testing.T) {
	for name, away := range map[string]error{
		"nothing is answered": errLost, "each call fails": backend.ErrUnavailable, "each call is denied": backend.ErrDenied,
	} {
		for what, end := range map[string]func(e *Election, stop func(), ran chan error) error{
			"Close":  func(e *Election, _ func(), _ chan error) error { return e.manager.Close(context.Background()) },
			"Resign": func(e *Election, _ func(), _ chan error) error { return e.Resign(context.Background()) },
			"Run":    func(_ *Election, stop func(), ran chan error) error { stop(); return <-ran },
		} {
			inBubble(t, what+", "+name, func(t *testing.T) {
				store := scripted()
				e := alone(t, store, Options{})
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- e.Run(ctx, untilItEnds) }()
				time.Sleep(time.Second)

				store.fail(away)
				began := time.Now()
				err := end(e, stop, ran)
				if took := time.Since(began); took > DefaultTTL {
					t.Errorf("it took %v, longer than the lease of %v lasts", took, DefaultTTL)
				}
				if !errors.Is(err, ErrNotReleased) || what == "Close" && !strings.Contains(err.Error(), `"x"`) {
					t.Errorf("%v, want ErrNotReleased and the election's name", err)
				}
				if e.Leading() {
					t.Error("it leads on")
				}
				stop()
				e.manager.Close(context.Background())
			})
		}
	}
}

// The same holds for a candidate that does not know whether its bid was granted.
func TestCloseEndsACandidateWithAnUnansweredBid(t *testing.T) {
	inBubble(t, "Close", func(t *testing.T) {
		store := scripted()
		store.fail(errLost, callAcquire, callRelease)
		e := alone(t, store, Options{})
		e.Lead(nil)
		time.Sleep(time.Second)
		began := time.Now()
		if err := e.manager.Close(context.Background()); err != nil && !errors.Is(err, ErrNotReleased) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > 2*DefaultTTL {
			t.Errorf("Close took %v", took)
		}
	})
}

// A follower has nothing in the store, so Close does not wait for a reading that hangs.
func TestCloseOfAFollowerDoesNotWaitForAReading(t *testing.T) {
	inBubble(t, "Close", func(t *testing.T) {
		store := scripted()
		e := alone(t, store, Options{})
		e.Lead(nil)
		joined(t, e.manager, "y")
		time.Sleep(time.Second)
		store.fail(errLost, callObserve)
		time.Sleep(DefaultTTL/2 + time.Second) // by now a reading is under way
		began := time.Now()
		closes(t, e.manager)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}
