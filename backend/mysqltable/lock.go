package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// A reading is what [table.Take] needs to know of a row that was read.
type reading struct {
	row
	mustExpire bool // by the other programs' comparison: it is theirs
}

// Limits implements [beside.Lock]. A row's time is truncated to whole seconds, which costs up to one, and
// the write and the read take time.
func (t *table) Limits() beside.Limits {
	return beside.Limits{Name: Name, MaxTTL: t.rowLifetime() - 2*time.Second}
}

// Close implements [beside.Lock].
func (t *table) Close() error {
	t.pools.End()
	return nil
}

// state says what a row means to the process with the id me. See docs/design/mysqltable.md.
func (t *table) state(r row, me string) beside.State {
	s := beside.State{Sealed: r.time == sealed, Age: max(r.age, 0)}
	if leap, ok := t.nextSpringForward(r.now); ok && r.found {
		s.Most = max(leap.Sub(r.now), 1)
	}

	mustExpire := false
	switch {
	case !r.found:
		// An operator deleted the row to get a new election. The program that led by it may not have
		// read the row since.
		s.Version, s.Watch = "no row", t.options.Period
	case r.holder == "" && (r.time == vacated || r.time == sealed):
		s.Free = true
	case r.holder == "":
		s.Version, s.Watch = "unnamed "+r.time, t.options.Period
	default:
		s.Term, s.Who, s.Version = termOf(r.holder), r.holder, r.digest()
		s.TTL, s.Renew, s.Watch = t.observeFor(), t.options.Period, t.observeFor()
		mustExpire = s.Term == 0

		if t.shape.designates(r.holder, me) {
			// An operator wants this process to lead. The previous leader may not have read the row since.
			s.TTL, s.Watch, mustExpire = t.options.Threshold, t.options.Period, false
		}
		s.Firm = mustExpire && !r.expired
	}
	s.Seen = reading{r, mustExpire}
	return s
}

// digest changes with holder and time.
func (r row) digest() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q", r.holder, r.time)
	return fmt.Sprintf("row %x", h.Sum64())
}

// Read implements [beside.Lock].
func (t *table) Read(ctx context.Context, me string, elections []string) ([]beside.State, error) {
	keys, errs := t.keysOf(elections)
	var rows []row
	err := t.call(ctx, "read", func(conn *sql.Conn) (err error) {
		rows, err = t.read(ctx, conn, keys, errs)
		return err
	})
	if err != nil {
		return nil, err
	}

	states := make([]beside.State, len(rows))
	for i, r := range rows {
		states[i] = t.state(r, me)
		states[i].Err = errs[i]
	}
	return states, nil
}

// Take implements [beside.Lock]. Each UPDATE is pinned to the holder and the time that were read.
func (t *table) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	results := make([]beside.Result, len(takings))
	for i := range takings {
		results[i] = t.take(ctx, &takings[i])
	}
	return results, nil
}

func (t *table) take(ctx context.Context, taking *beside.Taking) beside.Result {
	keys, errs := t.keysOf([]string{taking.Election})
	if errs[0] != nil {
		return beside.Result{Err: errs[0]}
	}
	var now []row
	err := t.call(ctx, fmt.Sprintf("acquire %q", taking.Election), func(conn *sql.Conn) error {
		err := t.write(ctx, conn, keys[0], taking)
		if err == nil {
			now, err = t.read(ctx, conn, keys, errs)
		}
		return err
	})
	switch {
	case err != nil:
		return beside.Result{Err: err}
	case errs[0] != nil:
		return beside.Result{Err: errs[0]}
	}

	r := t.result(now[0], &taking.Owned)
	if r.Outcome == backend.Unknown { // it is ours, and no time is left
		r.Outcome = backend.Refused
	}
	return r
}

// write runs the statement that takes a row that was read as taking says.
func (t *table) write(ctx context.Context, conn *sql.Conn, key string, taking *beside.Taking) error {
	was, holder := taking.Was.Seen.(reading), t.shape.holderOf(taking.ID, taking.Term)
	var when any
	if taking.Sealed {
		when = sealed
	}

	switch {
	case was.mustExpire:
		_, err := conn.ExecContext(ctx, t.statement(takeExpiredSQL), holder, when, key, was.holder, was.time, t.patienceSeconds())
		return err
	case was.found:
		_, err := conn.ExecContext(ctx, t.statement(takeSQL), holder, when, key, was.holder, was.time)
		return err
	}
	_, err := conn.ExecContext(ctx, t.statement(insertSQL), key, holder)
	if is(err, errDuplicate, errAutoIncr) {
		err = t.insertFailed(ctx, conn, key, err)
	}
	if err == nil && when != nil {
		err = t.renewRows(ctx, conn, []string{key}, []string{holder}, when)
	}
	return err
}

// insertFailed returns the error of a row that cannot be inserted, or nil if another program
// has inserted it. The AUTO_INCREMENT numbers may be used up.
func (t *table) insertFailed(ctx context.Context, conn *sql.Conn, key string, cause error) error {
	errs := []error{nil}
	rows, err := t.read(ctx, conn, []string{key}, errs)
	switch {
	case err != nil:
		return err
	case errs[0] != nil:
		return errs[0]
	case rows[0].found:
		return nil
	}
	return fmt.Errorf("%w: no row can be added to %s: %w; its AUTO_INCREMENT seems to be used up", backend.ErrDenied, t.quoted(), cause)
}

// result says what a row that was read after a write means to who wrote it.
func (t *table) result(r row, o *beside.Owned) beside.Result {
	s := t.state(r, o.ID)
	if r.holder != t.shape.holderOf(o.ID, o.Term) {
		return beside.Result{Outcome: backend.Refused, State: s}
	}
	if o.Sealed && r.time != sealed {
		err := fmt.Errorf("mysqltable: %q: %w: the row is locked by another transaction, and not sealed", o.Election, backend.ErrUnavailable)
		return beside.Result{State: s, Err: err}
	}

	remaining := beside.Always
	if r.time != sealed {
		remaining = t.rowLifetime() - r.age
	}
	if s.Most > 0 {
		remaining = min(remaining, s.Most)
	}
	if remaining <= 0 {
		err := fmt.Errorf("mysqltable: %q: %w: the row was written %v ago, by the server's clock, and counts for %v",
			o.Election, backend.ErrUnavailable, r.age, t.rowLifetime())
		return beside.Result{State: s, Err: err}
	}
	return beside.Result{Outcome: backend.Granted, ValidFor: remaining, State: s}
}

// Keep implements [beside.Lock]. It renews the rows, and reads them then. Only that read says whether they
// are ours and for how long: the other programs compare a row's time with the server's clock, as it does.
func (t *table) Keep(ctx context.Context, owned []beside.Owned) ([]beside.Result, error) {
	names := make([]string, len(owned))
	for i, o := range owned {
		names[i] = o.Election
	}
	keys, errs := t.keysOf(names)
	var rows []row
	err := t.call(ctx, fmt.Sprintf("renew %d rows", len(owned)), func(conn *sql.Conn) (err error) {
		for _, seal := range []bool{false, true} {
			if err := t.renewOwned(ctx, conn, keys, errs, owned, seal); err != nil {
				return err
			}
		}
		rows, err = t.read(ctx, conn, keys, errs)
		return err
	})
	if err != nil {
		return nil, err
	}

	results := make([]beside.Result, len(owned))
	for i := range owned {
		if errs[i] != nil {
			results[i] = beside.Result{Err: errs[i]}
			continue
		}
		results[i] = t.result(rows[i], &owned[i])
		if results[i].Outcome == backend.Refused {
			results[i].Err = t.lostError(names[i], keys[i], &rows[i])
		}
	}
	return results, nil
}

// renewOwned renews the rows that shall be sealed, or those that shall not.
func (t *table) renewOwned(ctx context.Context, conn *sql.Conn, keys []string, errs []error, owned []beside.Owned, seal bool) error {
	var ours, holders []string
	for i, o := range owned {
		if errs[i] == nil && o.Sealed == seal {
			ours, holders = append(ours, keys[i]), append(holders, t.shape.holderOf(o.ID, o.Term))
		}
	}
	if ours == nil {
		return nil
	}
	if seal {
		return t.renewRows(ctx, conn, ours, holders, sealed)
	}
	return t.renewRows(ctx, conn, ours, holders, nil)
}

// lostError says to whom a row was lost.
func (t *table) lostError(election, key string, r *row) error {
	if !r.found {
		return fmt.Errorf("mysqltable: %q: the row %.80q was deleted from %s", election, key, t.quoted())
	}
	return fmt.Errorf("mysqltable: %q: the row %.80q of %s names %.128q", election, key, t.quoted(), r.holder)
}

// Drop implements [beside.Lock]. A row that was dropped has a blank holder, and a time long ago if it is not
// sealed.
func (t *table) Drop(ctx context.Context, owned []beside.Owned) error {
	var ours []string
	var terms []uint64
	for _, o := range owned {
		keys, errs := t.keysOf([]string{o.Election})
		if errs[0] == nil { // otherwise it was never taken
			ours, terms = append(ours, keys[0]), append(terms, o.Term)
		}
	}
	if ours == nil {
		return nil
	}

	return t.call(ctx, fmt.Sprintf("release %d rows", len(ours)), func(conn *sql.Conn) error {
		for i, key := range ours {
			if _, err := conn.ExecContext(ctx, t.statement(dropSQL), key, mark(terms[i])); err != nil {
				return err
			}
		}
		rows, err := t.read(ctx, conn, ours, make([]error, len(ours)))
		if err != nil {
			return err
		}
		for i, r := range rows {
			if r.found && termOf(r.holder) == terms[i] {
				return fmt.Errorf("%w: the row %.80q was not released", backend.ErrUnavailable, ours[i])
			}
		}
		return nil
	})
}

// Preflight implements [beside.Lock]: it runs the statements that take and insert a row. They change nothing:
// no holder is NULL, and the INSERT selects no row.
func (t *table) Preflight(ctx context.Context, elections []string) []error {
	err := t.call(ctx, "preflight", func(conn *sql.Conn) error {
		args := []any{"", nil, "", nil, vacated}
		if _, err := conn.ExecContext(ctx, t.statement(takeSQL), args...); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, t.statement(takeExpiredSQL), append(args, t.patienceSeconds())...); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, t.statement(preflightSQL))
		return err
	})
	return slices.Repeat([]error{err}, len(elections))
}

// nextSpringForward returns the next moment at which the other programs' clocks spring
// forward. A row that was written a second before is an hour old to them.
func (t *table) nextSpringForward(now time.Time) (time.Time, bool) {
	at := now.In(t.zone)
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
