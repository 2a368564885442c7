//go:build linux || darwin

package file

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

const (
	// pollEvery is how often files are read where the kernel does not report changes.
	pollEvery = 50 * time.Millisecond

	// The kernel reports that a file was closed just before it unlocks the file. So a lock
	// is read again for a while, at growing intervals.
	firstRecheck, lastRecheck = 100 * time.Microsecond, 100 * time.Millisecond

	// Renewals come in bursts. A burst is over when there was no event for quietTime, or
	// after longestBurst.
	quietTime, longestBurst = 2 * time.Millisecond, 20 * time.Millisecond
)

// Listen waits until the files of an election in seen differ from the lease. The kernel
// reports every write, rename and removal in the directory. It also reports that a lock
// file was closed, which happens when its holder dies.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return fail("listen", err)
	}
	dir, err := b.dirIdentity()
	if err != nil {
		return fail("listen", b.listenByPolling(ctx, seen)) // the directory may come back
	}
	w, err := watchDir(b.dir)
	if err != nil {
		return fail("listen", b.listenByPolling(ctx, seen)) // this system has no watches, or none left
	}
	defer w.close()
	l := newListener(b, dir, seen)
	next := l.pending // to find what has changed before the watch began
	for {
		if changed, err := l.read(next); changed || err != nil {
			return err
		}
		wait, done := l.wait()
		if done {
			return nil
		}
		events, overflow, err := w.next(ctx, wait)
		if err != nil {
			return fail("listen", err)
		}
		if next, done = l.handle(events, overflow); done {
			return nil
		}
	}
}

// A listener is the state of one Listen. Its maps are by the encoded name of the election.
type listener struct {
	b       *Backend
	dir     string                   // identity of the directory that is watched
	several bool                     // it listens to more than one election
	pending map[string]backend.Lease // not renewed since the caller has seen them
	closed  map[string]backend.Lease // their lock files were closed, and will be read again
	recheck time.Duration            // when that is due; 0: never
	burst   time.Time                // when the first renewal of a burst was read
}

func newListener(b *Backend, dir string, seen []backend.Lease) *listener {
	l := &listener{b: b, dir: dir, several: len(seen) > 1, pending: make(map[string]backend.Lease, len(seen)), closed: map[string]backend.Lease{}}
	for _, lease := range seen {
		l.pending[encode(lease.Election)] = lease
	}
	return l
}

// read reads leases, and reports whether one of them has changed by more than a renewal.
func (l *listener) read(leases map[string]backend.Lease) (changed bool, err error) {
	for base, was := range leases {
		now, err := l.b.readLease(was.Election)
		switch {
		case isFileError(err) && l.several: // Observe, or a bid, reports it
			continue
		case err != nil:
			return false, fail(fmt.Sprintf("listen %q", was.Election), err)
		case !now.Differs(was):
			continue
		case now.Term != was.Term || now.ObserveFor != was.ObserveFor || now.Holder != was.Holder || now.Request != was.Request:
			return true, nil
		}
		if delete(l.pending, base); l.burst.IsZero() { // a renewal; its holder renews others at the same time
			l.burst = time.Now()
		}
	}
	return false, nil
}

// wait returns how long to wait for events, less than 0 for no limit. done: a burst of
// renewals has lasted long enough.
func (l *listener) wait() (wait time.Duration, done bool) {
	switch {
	case !l.burst.IsZero():
		return quietTime, time.Since(l.burst) > longestBurst
	case l.recheck > 0:
		return l.recheck, false
	}
	return -1, false
}

// handle returns the leases to read after these events, or after the wait if there are
// none. done: a burst of renewals is over, or the directory is no longer at its path.
func (l *listener) handle(events []event, overflow bool) (next map[string]backend.Lease, done bool) {
	switch {
	case events == nil && !overflow && !l.burst.IsZero():
		return nil, true
	case events == nil && !overflow: // time to read the closed locks again
		next = l.closed
		if l.recheck *= 2; l.recheck > lastRecheck {
			l.closed, l.recheck = map[string]backend.Lease{}, 0
		}
		return next, false
	case overflow:
		if now, err := l.b.dirIdentity(); err != nil || now != l.dir { // this watch would report nothing more
			return nil, true
		}
		return l.pending, false
	}
	next = map[string]backend.Lease{}
	for _, e := range events {
		if lease, ok := l.pending[e.base]; ok {
			next[e.base] = lease
			if e.closed {
				l.closed[e.base], l.recheck = lease, firstRecheck
			}
		}
	}
	return next, false
}

// listenByPolling is Listen where the kernel does not report changes.
func (b *Backend) listenByPolling(ctx context.Context, seen []backend.Lease) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for _, l := range seen {
			now, err := b.readLease(l.Election)
			if isFileError(err) && len(seen) > 1 {
				continue
			}
			if err != nil || now.Differs(l) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
