package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Acquire implements [backend.Backend]: the lease first, which excludes all other
// members of this module, then the row, which excludes everybody else. Who gets the
// one and not the other gives it back within the same call.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.serve(ctx, bids[0].Candidate); err != nil {
		return nil, err
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	views, err := b.look(ctx, names)
	if err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	var pass []backend.Bid
	var places []int
	for i, bid := range bids {
		v := &views[i]
		mine := !v.inner.Vacant() && v.inner.Holder.Nonce == bid.Candidate.Nonce
		switch {
		case v.err != nil:
			answers[i].Err = v.err
		case bid.TTL > b.Guarantees().MaxTTL:
			answers[i].Err = fmt.Errorf("mysqltable: acquire %q: %w: TTL is %v; beside a threshold of %v it may be %v at most",
				bid.Election, backend.ErrInvalid, bid.TTL, b.options.Threshold, b.Guarantees().MaxTTL)
		case v.claim == theirs && !v.row.expired && !mine:
			// Said before the lease is touched, which others watch.
			answers[i] = backend.Answer{Lease: v.lease, Outcome: backend.Refused}
		case v.row.found && b.leaps(v.row.now, bid.TTL):
			answers[i] = backend.Answer{Lease: v.lease, Outcome: backend.Refused, Err: b.leaping(bid.Election)}
		case mine && v.lease.ObserveFor == 0 && v.lease.MovedTo == bid.Expected.MovedTo, v.lease.Unchanged(bid.Expected):
			bid.Expected = v.inner // the store compares it once more
			pass, places = append(pass, bid), append(places, i)
		case mine: // a leftover that is not to be granted
			answers[i] = b.giveBack(ctx, v, nil)
		default:
			answers[i] = backend.Answer{Lease: v.lease, Outcome: backend.Refused}
		}
	}
	if pass == nil {
		return answers, nil
	}
	got, err := b.inner.Acquire(ctx, pass)
	for n, a := range got {
		i := places[n]
		if a.Outcome != backend.Granted {
			if a.Outcome == backend.Refused {
				views[i].inner = a.Lease
				b.compose(&views[i])
				a.Lease = views[i].lease
			}
			answers[i] = a
			continue
		}
		answers[i] = b.take(ctx, bids[i], &views[i], a)
	}
	return answers, err
}

// take takes the row for who has just been granted the lease, over exactly what was
// read before that.
func (b *Backend) take(ctx context.Context, bid backend.Bid, v *view, a backend.Answer) backend.Answer {
	before := *v
	v.inner = a.Lease
	holder := b.shape.holderOf(bid.Candidate, a.Term)
	var when any
	if a.MovedTo != "" {
		when = sealed
	}
	err := b.on(ctx, fmt.Sprintf("acquire %q", bid.Election), func(conn *sql.Conn) error {
		var err error
		r := before.row
		switch before.claim {
		case none:
			_, err = conn.ExecContext(ctx, b.text(makeSQL), v.key, holder)
			if is(err, errDuplicate, errAutoIncr) {
				err = b.made(ctx, conn, v.key, err)
			}
			if err == nil && when != nil {
				err = b.keep(ctx, conn, []string{v.key}, []string{holder}, when)
			}
		case theirs:
			_, err = conn.ExecContext(ctx, b.text(stealSQL), holder, when, v.key, r.holder, r.at, b.seconds())
		default:
			_, err = conn.ExecContext(ctx, b.text(takeSQL), holder, when, v.key, r.holder, r.at)
		}
		if err != nil {
			return err
		}
		return b.reread(ctx, conn, v)
	})
	if err != nil {
		// The row may be ours or not. The manager releases what it is told nothing
		// about, and with the lease the row.
		return backend.Answer{Err: err}
	}
	if v.row.holder != holder {
		return b.giveBack(ctx, v, nil)
	}
	a.ValidFor, err = b.trust(v, a.ValidFor)
	if err == nil && b.leaps(v.row.now, bid.TTL) {
		err = b.leaping(bid.Election)
	}
	if err != nil {
		return b.giveBack(ctx, v, err)
	}
	a.Lease = v.lease
	return a
}

// made says what a row that cannot be inserted is about: somebody else was faster,
// or the numbers are used up.
func (b *Backend) made(ctx context.Context, conn *sql.Conn, key string, cause error) error {
	errs := []error{nil}
	rows, err := b.read(ctx, conn, []string{key}, errs)
	switch {
	case err != nil:
		return err
	case errs[0] != nil:
		return errs[0]
	case rows[0].found:
		return nil
	}
	return fmt.Errorf("%w: no row can be added to %s: %w; its AUTO_INCREMENT seems to be used up", backend.ErrDenied, b.table(), cause)
}

// giveBack releases a lease whose row is somebody else's, or that may not be kept.
func (b *Backend) giveBack(ctx context.Context, v *view, cause error) backend.Answer {
	held := v.inner.Held()
	held.End = backend.Failed
	if err := b.release(ctx, []backend.Held{held}); err != nil {
		return backend.Answer{Err: err}
	}
	now, err := b.look(ctx, []string{v.inner.Election})
	if err != nil {
		return backend.Answer{Err: err}
	}
	return backend.Answer{Lease: now[0].lease, Outcome: backend.Refused, Err: cause}
}

// reread reads the row of one election again.
func (b *Backend) reread(ctx context.Context, conn *sql.Conn, v *view) error {
	errs := []error{nil}
	rows, err := b.read(ctx, conn, []string{v.key}, errs)
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return err
	}
	v.row = rows[0]
	b.compose(v)
	return nil
}

// trust is for how long, from the start of the call in which it was read, a row of
// ours keeps the other programs away. They compare its time with the server's
// clock, and so do we, in one statement: whatever became of the write before it,
// the row lives for what this says. It is counted from an earlier moment than that
// reading, so it is too short, if anything.
func (b *Backend) trust(v *view, most time.Duration) (time.Duration, error) {
	left := most
	if v.row.at != sealed {
		left = min(left, b.lifetime()-v.row.age)
	}
	if leap, ok := b.leap(v.row.now); ok {
		left = min(left, leap.Sub(v.row.now))
	}
	if left <= 0 {
		return 0, fmt.Errorf("mysqltable: %q: %w: the row was written %v ago, by the server's clock, and counts for %v",
			v.inner.Election, backend.ErrUnavailable, v.row.age, b.lifetime())
	}
	return left, nil
}

// leap is the next moment at which the other programs' clocks spring forward: what
// was written a second before is an hour old to them.
func (b *Backend) leap(now time.Time) (time.Time, bool) {
	at := now.In(b.zone)
	for range 4 { // clocks change a few times a year
		_, end := at.ZoneBounds()
		if end.IsZero() {
			return end, false
		}
		_, before := end.Add(-time.Nanosecond).Zone()
		if _, after := end.Zone(); after > before {
			return end, true
		}
		at = end
	}
	return time.Time{}, false
}

// leaps reports whether that is sooner than within.
func (b *Backend) leaps(now time.Time, within time.Duration) bool {
	leap, ok := b.leap(now)
	return ok && leap.Sub(now) < within
}

func (b *Backend) leaping(election string) error {
	return fmt.Errorf("mysqltable: acquire %q: %w: the clocks of the other programs (zone %s) spring forward within a TTL", election, backend.ErrUnavailable, b.options.Zone)
}
