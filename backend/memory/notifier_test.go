package memory

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/backend"
)

// A belfry has a lease that changes, and one that was never held.
type belfry struct {
	notifier
	term     uint64
	readings int
	during   func() // of a reading, after the leases were read
}

func (b *belfry) Observe(_ context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	b.readings++
	for _, l := range seen {
		now := backend.Lease{Election: l.Election}
		if l.Election == "jobs" {
			now.Term, now.Version = b.term, strconv.FormatUint(b.term, 10)
		}
		if l.Version == "" || now.Differs(l) {
			changed = append(changed, now)
		}
	}
	if b.during != nil {
		b.during()
	}
	return changed, nil
}

func TestWhoListensReturnsOnceALeaseIsNotAsItWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &belfry{term: 1}
		seen := []backend.Lease{{Election: "never held"}, {Election: "jobs", Term: 1, Version: "1"}}
		heard := make(chan error, 1)
		go func() { heard <- b.listen(t.Context(), seen, b.Observe) }()
		for range 3 {
			synctest.Wait()
			b.notify() // about something else
		}
		synctest.Wait()
		if len(heard) > 0 || b.readings != 4 {
			t.Fatalf("returned: %d, after %d readings, want one at once and one for each ring", len(heard), b.readings)
		}
		b.term++
		b.notify()
		if err := <-heard; err != nil {
			t.Error(err)
		}
		if err := b.listen(t.Context(), seen, b.Observe); err != nil || b.readings != 6 {
			t.Errorf("what has changed before is not heard at once: %v after %d readings", err, b.readings)
		}
	})
}

func TestARingDuringAReadingIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &belfry{term: 1}
		b.during = func() { b.term = 2; b.notify() }
		if err := b.listen(t.Context(), []backend.Lease{{Election: "jobs", Term: 1, Version: "1"}}, b.Observe); err != nil || b.readings != 2 {
			t.Errorf("%v after %d readings, want another reading after the ring", err, b.readings)
		}
	})
}

func TestListeningEndsWithItsContextAndWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &belfry{term: 1}
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan error, 1)
		go func() { heard <- b.listen(ctx, []backend.Lease{{Election: "jobs", Term: 1, Version: "1"}}, b.Observe) }()
		synctest.Wait()
		cancel()
		if err := <-heard; err != context.Canceled {
			t.Errorf("%v, want the context's error", err)
		}
		fails := func(context.Context, []backend.Lease) ([]backend.Lease, error) {
			return nil, backend.ErrUnavailable
		}
		if err := b.listen(t.Context(), nil, fails); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%v, want the error of the reading", err)
		}
	})
}
