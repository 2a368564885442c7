//go:build linux || darwin

package file

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

const (
	// lookEvery is how often files are read where the kernel does not tell.
	lookEvery = 50 * time.Millisecond

	// The kernel tells that a file was closed before it unlocks it, in the same
	// breath. So a lock is looked at again for a while, less and less often.
	firstLook, lastLook = 100 * time.Microsecond, 100 * time.Millisecond

	// quiet is how long nothing must have happened before a crowd of renewals
	// counts as heard.
	quiet, longestCrowd = 2 * time.Millisecond, 20 * time.Millisecond
)

// Listen waits until the files of an election in seen tell something new. The
// kernel reports each write, rename and removal in the directory, and that a lock
// file was closed, which the death of its holder does too.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return fail("listen", err)
	}
	here, err := b.where()
	if err != nil {
		return fail("listen", b.lookOut(ctx, seen)) // it may come back
	}
	n, err := newNotice(b.dir)
	if err != nil {
		return fail("listen", b.lookOut(ctx, seen)) // too many watchers already, or none at all on this system
	}
	defer n.close()
	by := make(map[string]backend.Lease, len(seen)) // by the encoded name
	for _, l := range seen {
		by[encode(l.Election)] = l
	}
	all := by
	var crowd time.Time     // when the first renewal was heard
	var again time.Duration // when to look again at locks that were closed
	closed := map[string]backend.Lease{}
	for {
		// The first time this is about what came before the kernel was asked.
		for base, l := range all {
			now, err := b.look(l.Election)
			switch {
			case alone(err) && len(seen) > 1: // Observe, or a bid, says so
				continue
			case err != nil:
				return fail(fmt.Sprintf("listen %q", l.Election), err)
			case !now.Differs(l):
				continue
			case now.Term != l.Term || now.ObserveFor != l.ObserveFor || now.Holder != l.Holder || now.Request != l.Request:
				return nil
			}
			if delete(by, base); crowd.IsZero() { // a renewal: others come with it
				crowd = time.Now()
			}
		}
		wait := time.Duration(-1)
		if again > 0 {
			wait = again
		}
		if !crowd.IsZero() {
			if time.Since(crowd) > longestCrowd {
				return nil
			}
			wait = quiet
		}
		events, everything, err := n.next(ctx, wait)
		if err != nil {
			return fail("listen", err)
		}
		switch {
		case events == nil && !everything && !crowd.IsZero():
			return nil
		case events == nil && !everything: // time to look again
			if all, again = closed, again*2; again > lastLook {
				closed, again = map[string]backend.Lease{}, 0
			}
			continue
		case everything:
			if now, err := b.where(); err != nil || now != here { // moved, or removed: nothing more is heard here
				return nil
			}
			all = by
			continue
		}
		all = map[string]backend.Lease{}
		for _, e := range events {
			if l, ok := by[e.base]; ok {
				all[e.base] = l
				if e.closed {
					closed[e.base], again = l, firstLook
				}
			}
		}
	}
}

// lookOut is Listen where the kernel does not tell.
func (b *Backend) lookOut(ctx context.Context, seen []backend.Lease) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for _, l := range seen {
			now, err := b.look(l.Election)
			if alone(err) && len(seen) > 1 {
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
