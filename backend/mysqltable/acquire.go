package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Acquire implements [backend.Backend]. It acquires the lease first, which excludes the other
// members of this module, then the row, which excludes the other programs. If it gets the
// lease and not the row, it releases the lease within this call.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, bids[0].Candidate); err != nil {
		return nil, err
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	snaps, err := b.snapshots(ctx, names)
	if err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	var passed []backend.Bid
	var indices []int
	for i, bid := range bids {
		snap := &snaps[i]
		leftover := !snap.inner.Vacant() && snap.inner.Holder.Nonce == bid.Candidate.Nonce
		switch {
		case snap.err != nil:
			answers[i].Err = snap.err
		case bid.TTL > b.Guarantees().MaxTTL:
			answers[i].Err = fmt.Errorf("mysqltable: acquire %q: %w: TTL is %v; beside a threshold of %v it may be %v at most",
				bid.Election, backend.ErrInvalid, bid.TTL, b.options.Threshold, b.Guarantees().MaxTTL)
		case snap.owner == otherProgram && !snap.row.expired && !leftover:
			// Refused before the lease is changed, which other members observe.
			answers[i] = backend.Answer{Lease: snap.lease, Outcome: backend.Refused}
		case snap.row.found && b.springsForwardWithin(snap.row.now, bid.TTL):
			answers[i] = backend.Answer{Lease: snap.lease, Outcome: backend.Refused, Err: b.springForwardError(bid.Election)}
		case leftover && snap.lease.ObserveFor == 0 && snap.lease.MovedTo == bid.Expected.MovedTo, snap.lease.Unchanged(bid.Expected):
			bid.Expected = snap.inner // the inner backend compares it again
			passed, indices = append(passed, bid), append(indices, i)
		case leftover: // must not be granted
			answers[i] = b.giveBack(ctx, snap, nil)
		default:
			answers[i] = backend.Answer{Lease: snap.lease, Outcome: backend.Refused}
		}
	}
	if passed == nil {
		return answers, nil
	}
	got, err := b.inner.Acquire(ctx, passed)
	for n, a := range got {
		i := indices[n]
		if a.Outcome != backend.Granted {
			if a.Outcome == backend.Refused {
				snaps[i].inner = a.Lease
				b.combine(&snaps[i])
				a.Lease = snaps[i].lease
			}
			answers[i] = a
			continue
		}
		answers[i] = b.takeRow(ctx, bids[i], &snaps[i], a)
	}
	return answers, err
}

// takeRow takes the row for a candidate that was just granted the lease, if the row is exactly
// as it was read before the grant.
func (b *Backend) takeRow(ctx context.Context, bid backend.Bid, snap *snapshot, a backend.Answer) backend.Answer {
	before := *snap
	snap.inner = a.Lease
	holder := b.shape.holderOf(bid.Candidate.ID, a.Term)
	var when any
	if a.MovedTo != "" {
		when = sealed
	}
	err := b.call(ctx, fmt.Sprintf("acquire %q", bid.Election), func(conn *sql.Conn) error {
		var err error
		r := before.row
		switch before.owner {
		case noRow:
			_, err = conn.ExecContext(ctx, b.statement(insertSQL), snap.key, holder)
			if is(err, errDuplicate, errAutoIncr) {
				err = b.insertFailed(ctx, conn, snap.key, err)
			}
			if err == nil && when != nil {
				err = b.renewRows(ctx, conn, []string{snap.key}, []string{holder}, when)
			}
		case otherProgram:
			_, err = conn.ExecContext(ctx, b.statement(takeExpiredSQL), holder, when, snap.key, r.holder, r.time, b.patienceSeconds())
		default:
			_, err = conn.ExecContext(ctx, b.statement(takeSQL), holder, when, snap.key, r.holder, r.time)
		}
		if err != nil {
			return err
		}
		return b.rereadRow(ctx, conn, snap)
	})
	if err != nil {
		// Whether the row is ours is unknown. The manager releases a lease whose outcome
		// is unknown, and the row with it.
		return backend.Answer{Err: err}
	}
	if snap.row.holder != holder {
		return b.giveBack(ctx, snap, nil)
	}
	a.ValidFor, err = b.validFor(snap, a.ValidFor)
	if err == nil && b.springsForwardWithin(snap.row.now, bid.TTL) {
		err = b.springForwardError(bid.Election)
	}
	if err != nil {
		return b.giveBack(ctx, snap, err)
	}
	a.Lease = snap.lease
	return a
}

// insertFailed returns the error of a row that cannot be inserted, or nil if another program
// has inserted it. The AUTO_INCREMENT numbers may be used up.
func (b *Backend) insertFailed(ctx context.Context, conn *sql.Conn, key string, cause error) error {
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

// giveBack releases a lease whose row belongs to another program, or that must not be kept.
func (b *Backend) giveBack(ctx context.Context, snap *snapshot, cause error) backend.Answer {
	held := snap.inner.Held()
	held.End = backend.Failed
	if err := b.release(ctx, []backend.Held{held}); err != nil {
		return backend.Answer{Err: err}
	}
	current, err := b.snapshots(ctx, []string{snap.inner.Election})
	if err != nil {
		return backend.Answer{Err: err}
	}
	return backend.Answer{Lease: current[0].lease, Outcome: backend.Refused, Err: cause}
}

// rereadRow reads the row of one election again.
func (b *Backend) rereadRow(ctx context.Context, conn *sql.Conn, snap *snapshot) error {
	errs := []error{nil}
	rows, err := b.read(ctx, conn, []string{snap.key}, errs)
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return err
	}
	snap.row = rows[0]
	b.combine(snap)
	return nil
}

// validFor returns for how long, from the start of the call in which it was read, a row of
// this module keeps the other programs away. They compare its time with the server's clock,
// and so does the statement that read it: whatever happened to the write before, the row is
// safe for that long. The time counts from before the read, so that it is too short rather
// than too long. See docs/design/mysqltable.md, "A member of this module, then another
// program".
func (b *Backend) validFor(snap *snapshot, leaseValidFor time.Duration) (time.Duration, error) {
	remaining := leaseValidFor
	if snap.row.time != sealed {
		remaining = min(remaining, b.rowLifetime()-snap.row.age)
	}
	if leap, ok := b.nextSpringForward(snap.row.now); ok {
		remaining = min(remaining, leap.Sub(snap.row.now))
	}
	if remaining <= 0 {
		return 0, fmt.Errorf("mysqltable: %q: %w: the row was written %v ago, by the server's clock, and counts for %v",
			snap.inner.Election, backend.ErrUnavailable, snap.row.age, b.rowLifetime())
	}
	return remaining, nil
}

// nextSpringForward returns the next moment at which the other programs' clocks spring
// forward. A row that was written a second before is an hour old to them.
func (b *Backend) nextSpringForward(now time.Time) (time.Time, bool) {
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

// springsForwardWithin reports whether that moment comes sooner than within.
func (b *Backend) springsForwardWithin(now time.Time, within time.Duration) bool {
	leap, ok := b.nextSpringForward(now)
	return ok && leap.Sub(now) < within
}

func (b *Backend) springForwardError(election string) error {
	return fmt.Errorf("mysqltable: acquire %q: %w: the clocks of the other programs (zone %s) spring forward within a TTL", election, backend.ErrUnavailable, b.options.Zone)
}
