package election

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is the only place that reads a clock for decisions. It measures time
// since it was made on the monotonic clock, plus the time that the machine was
// suspended: Go's monotonic clock stands still meanwhile on Linux
// (golang.org/issue/24595), the boot-time clock does not. Asking that one is a
// system call, so it is asked only when the difference between the wall clock and
// the monotonic clock, both read by one time.Now, has moved by more than a
// millisecond since the last check.
type clock struct {
	base      time.Time
	boot      time.Duration // boot-time clock at base
	diff      atomic.Int64  // wall − monotonic, at the last check
	suspended atomic.Int64
	woken     chan struct{} // has an element after a suspension was found: timers know nothing of it
	jumps     sync.Mutex
	ahead     atomic.Int64 // where there is no boot-time clock: how far the wall clock has jumped forward, in all
}

const checkAfter = int64(time.Millisecond)

func newClock() *clock {
	c := &clock{base: time.Now(), woken: make(chan struct{}, 1)}
	for range 8 { // late, if this was interrupted, it would hide as much of a suspension
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

// latest is the time by the most pessimistic reading, for a holder: it may lie
// ahead of now, which challengers use. A deadline that is compared with it has
// added what the machine has been told of ahead.
func (c *clock) latest() time.Duration { return c.now() + time.Duration(c.ahead.Load()) }

// check measures how long the machine has been suspended so far.
func (c *clock) check(diff int64) {
	const good, bad = 50 * time.Microsecond, 10 * time.Millisecond
	best, suspended := bad, time.Duration(0)
	for range 8 {
		before := time.Since(c.base)
		boot, ok := boottime()
		gap := time.Since(c.base) - before // the most by which this sample is too great
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
		return // interrupted each time: the next reading checks again
	}
	if suspended > time.Millisecond { // less is the error of measuring, or of rates
		raise(&c.suspended, int64(suspended))
		c.wake()
	}
	c.diff.Store(diff)
}

// jumped believes the wall clock when it jumps forward, also if it was set back before: by
// as much as since the last check, not since the clock was made.
func (c *clock) jumped(diff int64) {
	c.jumps.Lock()
	defer c.jumps.Unlock()
	if d := diff - c.diff.Load(); d > 0 {
		c.ahead.Add(d)
		c.wake()
	}
	c.diff.Store(diff) // last: who sees it does not check
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
