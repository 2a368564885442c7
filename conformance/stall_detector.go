package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A stallDetector measures for how long the machine has stalled. It reads the clock every
// 10 ms. A gap above stallThreshold between two readings is time in which this process
// could not run. In virtual time the detector is nil: nothing stalls there.
type stallDetector struct {
	stop, done chan struct{}

	mu             sync.Mutex
	lastTick       time.Time // the last reading
	total, longest time.Duration
}

// stallThreshold is the longest gap between two readings that does not count as a stall.
const stallThreshold = 100 * time.Millisecond

func newStallDetector() *stallDetector {
	d := &stallDetector{stop: make(chan struct{}), done: make(chan struct{}), lastTick: time.Now()}
	go func() {
		defer close(d.done)
		tick := time.NewTicker(stallThreshold / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.mu.Lock()
				d.update()
				d.mu.Unlock()
			case <-d.stop:
				return
			}
		}
	}()
	return d
}

// update reads the clock and adds the gap since the last reading if it is a stall. The
// caller holds the lock.
func (d *stallDetector) update() {
	now := time.Now()
	if gap := now.Sub(d.lastTick); gap > stallThreshold {
		d.total += gap
		d.longest = max(d.longest, gap)
	}
	d.lastTick = now
}

// stalled returns the total of all stalls so far and the longest one.
func (d *stallDetector) stalled() (total, longest time.Duration) {
	if d == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.update()
	return d.total, d.longest
}

func (d *stallDetector) end() {
	close(d.stop)
	<-d.done
}

// waitUntilCalm waits until the machine has not stalled for a second, or for limit.
func waitUntilCalm(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		d := newStallDetector()
		select {
		case <-time.After(10 * stallThreshold):
		case <-ctx.Done():
		}
		total, _ := d.stalled()
		d.end()
		if total == 0 {
			return
		}
	}
}

// A stopwatch measures time without stalls.
type stopwatch struct {
	startedAt     time.Time
	stalledBefore time.Duration
}

func (t *Trial) startStopwatch() stopwatch {
	total, _ := t.stalls.stalled()
	return stopwatch{time.Now(), total}
}

// elapsed returns how long the machine has run since the stopwatch was started.
func (t *Trial) elapsed(w stopwatch) time.Duration {
	passed := time.Since(w.startedAt)
	total, _ := t.stalls.stalled()
	return passed - (total - w.stalledBefore)
}

// void returns why the error of a case does not count, or "" if it does. It does not
// count if the machine stalled for so long that leases expire by that alone, or if the
// store, which the case has not harmed, did not answer in time.
func (t *Trial) void(found error) string {
	if t.stalls == nil {
		return ""
	}
	_, longest := t.stalls.stalled()
	tolerated := (t.TTL - t.clockMargin() - t.renewEvery()) / 2 // the other half is for a slow call
	if longest >= tolerated {
		return fmt.Sprintf("the machine stalled for %v at once, and a lease of %v tolerates %v", longest, t.TTL, tolerated)
	}
	if !t.harmed && longest > 0 && errors.Is(found, backend.ErrUnavailable) { // without a stall this would be the store's fault
		return fmt.Sprintf("the machine stalled for %v at once, and the store did not answer", longest)
	}
	var slowest time.Duration
	if !t.harmed {
		for _, n := range t.nodes {
			slowest = max(slowest, n.wire.slowestCall(t.callTimeout()))
		}
	}
	if slowest >= t.callTimeout() {
		return fmt.Sprintf("the store took %v for an answer, and the timeout of a call is %v", slowest, t.callTimeout())
	}
	if t.slack > 0 && longest+slowest+t.delayed >= t.slack {
		return fmt.Sprintf("the machine stalled for %v at once, the store took %v for an answer, and the outage lasted %v too long: together more than the %v that the case allows",
			longest, slowest, t.delayed, t.slack)
	}
	return ""
}
