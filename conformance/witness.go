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
type witness struct {
	stop, done chan struct{}

	mu             sync.Mutex
	last           time.Time // when it looked
	stood, longest time.Duration
}

// still is how long may lie between two looks of a busy machine that goes on.
const still = 100 * time.Millisecond

func newWitness() *witness {
	w := &witness{stop: make(chan struct{}), done: make(chan struct{}), last: time.Now()}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(still / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				w.look()
				w.mu.Unlock()
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

// look takes in what has passed since the last look. The caller holds the lock.
func (w *witness) look() {
	now := time.Now()
	if gap := now.Sub(w.last); gap > still {
		w.stood += gap
		w.longest = max(w.longest, gap)
	}
	w.last = now
}

// standing returns for how long the machine has stood still so far, in all and at worst.
func (w *witness) standing() (all, worst time.Duration) {
	if w == nil {
		return 0, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	return w.stood, w.longest
}

func (w *witness) end() {
	close(w.stop)
	<-w.done
}

// calm waits until the machine has not stood still for a second, or for limit.
func calm(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		w := newWitness()
		select {
		case <-time.After(10 * still):
		case <-ctx.Done():
		}
		stood, _ := w.standing()
		w.end()
		if stood == 0 {
			return
		}
	}
}

// A moment is a time from which time is measured that the machine did not stand still in.
type moment struct {
	at    time.Time
	stood time.Duration
}

func (t *Trial) moment() moment {
	stood, _ := t.witness.standing()
	return moment{time.Now(), stood}
}

// since returns how long the machine has run since a moment.
func (t *Trial) since(m moment) time.Duration {
	passed := time.Since(m.at)
	stood, _ := t.witness.standing()
	return passed - (stood - m.stood)
}

// void says why what a case has found is no verdict, "" if it is one. Somebody was to
// keep a lease, or to act in time, while the machine stood still for so long that leases
// run out by that alone, or the store, which nobody had harmed yet, did not answer in time.
func (t *Trial) void(found error) string {
	if t.witness == nil {
		return ""
	}
	_, worst := t.witness.standing()
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
	if t.spare > 0 && worst+slowest+t.overran >= t.spare {
		return fmt.Sprintf("the machine stood still for %v at once, the store took %v for an answer, and the outage lasted %v too long, where there are %v to spare in all",
			worst, slowest, t.overran, t.spare)
	}
	return ""
}
