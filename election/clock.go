package election

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock measures the time since it was made. All decisions use it and no other clock. It adds the
// time for which the machine was suspended to the monotonic time, because Go's monotonic clock
// stands still meanwhile on Linux (golang.org/issue/24595), and the boot-time clock does not.
// Reading the boot-time clock is a system call. So it is read only if the difference between the
// wall clock and the monotonic clock, both from one time.Now, has changed by more than a
// millisecond since the last check.
type clock struct {
	base      time.Time
	boot      time.Duration // boot-time clock at base
	diff      atomic.Int64  // wall clock − monotonic clock, at the last check
	suspended atomic.Int64  // total time of suspensions
	woken     chan struct{} // receives after a suspension, because timers do not notice it
	jumps     sync.Mutex
	ahead     atomic.Int64 // without a boot-time clock: the sum of the wall clock's forward jumps
}

// checkAfter is how far the difference of the clocks may change, in nanoseconds, before a check.
const checkAfter = int64(time.Millisecond)

func newClock() *clock {
	c := &clock{base: time.Now(), woken: make(chan struct{}, 1)}
	for range 8 { // an interruption between the two readings would hide as much of a suspension: try again
		before := time.Since(c.base)
		boot, ok := boottime()
		after := time.Since(c.base)
		if c.boot = boot - after; !ok || after-before < 50*time.Microsecond {
			break
		}
	}
	return c
}

// now returns the time since the clock was made.
func (c *clock) now() time.Duration {
	t := time.Now()
	mono := t.Sub(c.base)
	diff := t.UnixNano() - c.base.UnixNano() - int64(mono)
	if d := diff - c.diff.Load(); d > checkAfter || d < -checkAfter {
		c.check(diff)
	}
	return mono + time.Duration(c.suspended.Load())
}

// latest is now, plus all forward jumps of the wall clock so far, each of which may have been a suspension.
// Only a holder uses it, to compare it with a published deadline. The machine takes a jump off the deadlines
// that it has when it hears of the jump ([clockJumped]). What is published is such a deadline plus
// Manager.ahead, the jumps that were taken off: so old jumps do not shorten a new lease, and a jump of which
// the machine has not heard counts at once.
func (c *clock) latest() time.Duration { return c.now() + time.Duration(c.ahead.Load()) }

// check measures how long the machine has been suspended so far.
func (c *clock) check(diff int64) {
	const good, bad = 50 * time.Microsecond, 10 * time.Millisecond
	best, suspended := bad, time.Duration(0)
	for range 8 {
		before := time.Since(c.base)
		boot, ok := boottime()
		gap := time.Since(c.base) - before // the greatest error of this sample
		if !ok {
			c.jumped(diff)
			return
		}
		if gap < best {
			best, suspended = gap, boot-c.boot-before
		}
		if gap < good {
			break
		}
	}
	if best == bad {
		return // interrupted each time: the next call of now checks again
	}
	if suspended > time.Millisecond { // less may be an error of measurement
		raise(&c.suspended, int64(suspended))
		c.wake()
	}
	c.diff.Store(diff)
}

// jumped counts a forward jump of the wall clock since the last check as time that has passed. A
// clock that was set back earlier does not hide a later jump.
func (c *clock) jumped(diff int64) {
	c.jumps.Lock()
	defer c.jumps.Unlock()
	if d := diff - c.diff.Load(); d > 0 {
		c.ahead.Add(d)
		c.wake()
	}
	c.diff.Store(diff) // last, because it ends the checks of other goroutines
}

func (c *clock) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// raise sets v to at least n.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
