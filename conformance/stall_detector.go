package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A witness notices that the machine stands still. It means to look at the clock
// every few milliseconds: what passes between two looks beyond that is time in which
// nothing could run here. In virtual time there is none (nil), since nothing stands still.
type stallDetector struct {
	stop, done chan struct{}

	mu             sync.Mutex
	lastTick       time.Time // when it looked
	total, longest time.Duration
}

// still is how long may lie between two looks of a busy machine that goes on.
const stallThreshold = 100 * time.Millisecond

func newStallDetector() *stallDetector {
	w := &stallDetector{stop: make(chan struct{}), done: make(chan struct{}), lastTick: time.Now()}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(stallThreshold / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				w.update()
				w.mu.Unlock()
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

// look takes in what has passed since the last look. The caller holds the lock.
func (w *stallDetector) update() {
	now := time.Now()
	if gap := now.Sub(w.lastTick); gap > stallThreshold {
		w.total += gap
		w.longest = max(w.longest, gap)
	}
	w.lastTick = now
}

// standing returns for how long the machine has stood still so far, in all and at worst.
func (w *stallDetector) stalled() (all, worst time.Duration) {
	if w == nil {
		return 0, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.update()
	return w.total, w.longest
}

func (w *stallDetector) end() {
	close(w.stop)
	<-w.done
}

// calm waits until the machine has not stood still for a second, or for limit.
func waitUntilCalm(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		w := newStallDetector()
		select {
		case <-time.After(10 * stallThreshold):
		case <-ctx.Done():
		}
		stood, _ := w.stalled()
		w.end()
		if stood == 0 {
			return
		}
	}
}

// A moment is a time from which time is measured that the machine did not stand still in.
type stopwatch struct {
	startedAt     time.Time
	stalledBefore time.Duration
}

func (t *Trial) startStopwatch() stopwatch {
	stood, _ := t.stalls.stalled()
	return stopwatch{time.Now(), stood}
}

// since returns how long the machine has run since a moment.
func (t *Trial) elapsed(m stopwatch) time.Duration {
	passed := time.Since(m.startedAt)
	stood, _ := t.stalls.stalled()
	return passed - (stood - m.stalledBefore)
}

// void says why what a case has found is no verdict, "" if it is one. Somebody was to
// keep a lease, or to act in time, while the machine stood still for so long that leases
// run out by that alone, or the store, which nobody had harmed yet, did not answer in time.
func (t *Trial) void(found error) string {
	if t.stalls == nil {
		return ""
	}
	_, worst := t.stalls.stalled()
	bears := (t.TTL - t.clockMargin() - t.renewEvery()) / 2 // the other half is for a call that takes long
	if worst >= bears {
		return fmt.Sprintf("the machine stood still for %v at once, where leases of %v bear %v", worst, t.TTL, bears)
	}
	if !t.harmed && worst > 0 && errors.Is(found, backend.ErrUnavailable) { // on a machine that goes on, it is not to say that
		return fmt.Sprintf("the machine stood still for %v at once, and the store did not answer", worst)
	}
	var slowest time.Duration
	if !t.harmed {
		for _, n := range t.nodes {
			slowest = max(slowest, n.wire.slowestCall(t.callTimeout()))
		}
	}
	if slowest >= t.callTimeout() {
		return fmt.Sprintf("the store took %v for an answer, where a call has %v", slowest, t.callTimeout())
	}
	if t.slack > 0 && worst+slowest+t.delayed >= t.slack {
		return fmt.Sprintf("the machine stood still for %v at once, the store took %v for an answer, and the outage lasted %v too long, where there are %v to spare in all",
			worst, slowest, t.delayed, t.slack)
	}
	return ""
}
