package resourcelock

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Timings are the three durations that the elector of a lock must have, by client-go's names: see [Lock.Timings]. They
// follow from the manager's TTL. They cost no call of the store, so they are short.
type Timings struct {
	// LeaseDuration identifies the timings: an Update that shows another one fails. Nothing
	// expires by it. It is the next whole second after RenewDeadline, so 1 s with a TTL below 20 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long an elector retries before it stops: 2 * RetryPeriod.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two Updates: TTL/40, at most 1 s.
	RetryPeriod time.Duration
}

// loan is how much of the lease an Update needs: the time in which the elector believes in it,
// and a reserve.
func (t Timings) loan() time.Duration { return t.RetryPeriod + t.RenewDeadline + t.RetryPeriod }

// timingsOf returns the timings for a manager. A healthy leader must have enough left of its lease for a loan, with the
// default ClockMargin.
func timingsOf(s election.Status) (Timings, error) {
	t := Timings{RetryPeriod: min(s.TTL/40, time.Second)}
	t.RenewDeadline = 2 * t.RetryPeriod
	t.LeaseDuration = t.RenewDeadline.Truncate(time.Second) + time.Second
	if most := s.TTL - s.TTL/6 - t.loan(); s.RenewEvery > most {
		return t, invalid("RenewEvery is %v, must be at most %v with a TTL of %v", s.RenewEvery, most, s.TTL)
	}
	return t, nil
}

func invalid(format string, values ...any) error {
	return fmt.Errorf("resourcelock: %w: "+format, append([]any{backend.ErrInvalid}, values...)...)
}
