package election

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock measures the time since it was made. All decisions use it and no other clock. It adds the time for
// which the machine was suspended to the monotonic time, because Go's monotonic clock stands still meanwhile
// on Linux (golang.org/issue/24595), and the boot-time clock does not. Reading that one is a system call. So
// it is read only if the difference between the wall clock and the monotonic clock, both from one time.Now,
// has changed by more than a millisecond since the last check.
type clock struct {
	base      time.Time
	boot      time.Duration // boot-time clock at base, or a moment before
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
	offset, gap, _ := c.bootOffset()
	c.boot = offset - gap
	return c
}

// bootOffset returns how far the boot-time clock is ahead of the time since base, or at most gap less. An
// interruption between the two readings makes the gap large: then it tries again.
func (c *clock) bootOffset() (offset, gap time.Duration, ok bool) {
	gap = time.Hour
	for range 8 {
		before := time.Since(c.base)
		boot, ok := boottime()
		took := time.Since(c.base) - before
		if !ok {
			return 0, 0, false
		}
		if took < gap {
			offset, gap = boot-before, took
		}
		if gap < 50*time.Microsecond {
			break
		}
	}
	return offset, gap, true
}

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
	offset, gap, ok := c.bootOffset()
	switch {
	case !ok:
		c.jumped(diff)
		return
	case gap > 10*time.Millisecond:
		return // interrupted each time: the next call of now checks again
	case offset-c.boot > time.Millisecond: // less may be an error of measurement
		raise(&c.suspended, int64(offset-c.boot))
		signal(c.woken)
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
		signal(c.woken)
	}
	c.diff.Store(diff) // last, because it ends the checks of other goroutines
}

// signal wakes the receiver of c, now or when it receives next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// raise sets v to at least n.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
