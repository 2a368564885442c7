package resourcelock

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Timings are the three durations of an elector, by client-go's names. The elector must have the
// lock's: [Lock.Timings]. They cost no call of the store, so the defaults are
// short. With a TTL of 30 s or more, controller-runtime's own 15 s, 10 s and 2 s are possible.
type Timings struct {
	// LeaseDuration identifies the timings: an Update that shows another one fails. Nothing
	// expires by it. Whole seconds, more than RenewDeadline. Default: the next whole second
	// that is more, so 1 s with a TTL below 20 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long an elector retries before it stops. More than 1.2 * RetryPeriod.
	// Default: 2 * RetryPeriod.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two Updates. Default: TTL/40, at most 1 s.
	RetryPeriod time.Duration
}

// loan is how much of the lease an Update needs: the time in which the elector believes in it,
// and a reserve.
func (t Timings) loan() time.Duration { return t.RetryPeriod + t.RenewDeadline + t.RetryPeriod }

// complete fills the defaults in and checks all values against the manager's timings.
func (t Timings) complete(s election.Status) (Timings, error) {
	if t.RetryPeriod == 0 {
		t.RetryPeriod = min(s.TTL/40, time.Second)
	}
	if t.RenewDeadline == 0 {
		t.RenewDeadline = 2 * t.RetryPeriod
	}
	if t.LeaseDuration == 0 {
		t.LeaseDuration = t.RenewDeadline.Truncate(time.Second) + time.Second
	}
	// The least that a healthy leader has left of its lease, with the default ClockMargin.
	least := s.TTL - s.TTL/6 - s.RenewEvery
	retries := t.RetryPeriod + t.RetryPeriod/5
	switch {
	case t.RetryPeriod < 1:
		return t, invalid("RetryPeriod is %v, must be at least 1ns", t.RetryPeriod)
	case t.RenewDeadline <= retries:
		return t, invalid("RenewDeadline is %v, must be more than %v: 1.2 * RetryPeriod = 1.2 * %v", t.RenewDeadline, retries, t.RetryPeriod)
	case t.LeaseDuration <= t.RenewDeadline:
		return t, invalid("LeaseDuration is %v, must be more than %v: RenewDeadline", t.LeaseDuration, t.RenewDeadline)
	case t.LeaseDuration%time.Second != 0:
		return t, invalid("LeaseDuration is %v, must be whole seconds: client-go rounds %v down to %v",
			t.LeaseDuration, t.LeaseDuration, t.LeaseDuration.Truncate(time.Second))
	case t.RetryPeriod > least || t.RenewDeadline > least || t.loan() > least:
		return t, invalid("2 * RetryPeriod + RenewDeadline is 2 * %v + %v = %v, must be at most %v: 5/6 * TTL - RenewEvery = 5/6 * %v - %v",
			t.RetryPeriod, t.RenewDeadline, t.loan(), least, s.TTL, s.RenewEvery)
	}
	return t, nil
}

func invalid(format string, values ...any) error {
	return fmt.Errorf("resourcelock: %w: "+format, append([]any{backend.ErrInvalid}, values...)...)
}
