package mysqltable

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/mysql"
)

// A table is the lock beside the lease: the other programs' table. It implements [beside.Lock].
type table struct {
	server  *mysql.Backend // whose connections are used
	options Options
	shape   shape
	zone    *time.Location
	names   *strings.Replacer // of table and columns in statements
	checked atomic.Bool       // its time is a TIMESTAMP

	// lifetime is for how long a row is safe from the other programs, and how long one of theirs is watched.
	lifetime time.Duration
}

const chunk = 500 // elections in one message

func (t *table) Close() error { return nil }

// state says what a row means. Each row that is not ours is watched for as long as one of another program's
// may be relied on, also a deleted one: the program that led by it may not have read it since.
func (t *table) state(r row) beside.State {
	is := func(time string) bool { return strings.HasPrefix(r.time, time) }
	s := beside.State{Sealed: is(sealed), Watch: t.lifetime, Version: "no row", Seen: r}
	switch {
	case !r.found:
		return s
	case r.holder == "" && (is(vacated) || s.Sealed):
		s.Free = true
	default:
		s.Term, s.Who, s.TTL, s.Age = termOf(r.holder), r.holder, s.Watch, max(r.age, 0)
		s.Version = fmt.Sprintf("row %08x %.19s", crc32.ChecksumIEEE([]byte(r.holder)), r.time)
		s.Firm = s.Term == 0 && !r.expired
	}

	// When clocks spring forward, a row of a second before is an hour old to the other programs.
	now := r.now.In(t.zone)
	_, before := now.Zone()
	if _, end := now.ZoneBounds(); !end.IsZero() {
		if _, after := end.Zone(); after > before {
			s.Most = max(end.Sub(now), 1)
		}
	}
	return s
}

func (t *table) Read(ctx context.Context, elections []string) (states []beside.State, err error) {
	for part := range slices.Chunk(elections, chunk) {
		rows, err := t.read(ctx, "read", part)
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			s := t.state(rows[name])
			s.Err = t.check(name)
			states = append(states, s)
		}
	}
	return states, nil
}

func (t *table) Take(ctx context.Context, takings []beside.Taking) (results []beside.Result, err error) {
	for i := range takings {
		results = append(results, t.take(ctx, &takings[i].Owned, takings[i].Was.Seen.(row)))
	}
	return results, nil
}

// take takes a row, or makes it. The statement is pinned to the holder and the time that were read, and if
// they are another program's, to its own comparison.
func (t *table) take(ctx context.Context, o *beside.Owned, was row) beside.Result {
	key, holder, at, statement := text(o.Election), text(t.shape.holderOf(o.ID, o.Term)), "NOW()", takeSQL
	if o.Sealed {
		at = "'" + sealed + "'"
	}
	if termOf(was.holder) == 0 {
		statement = takeExpiredSQL
	}
	statement = t.statement(statement, holder, at, key, text(was.holder), text(was.time))
	if !was.found {
		statement = t.statement(insertSQL, key, holder, at)
	}

	rows, err := t.read(ctx, fmt.Sprintf("acquire %q", o.Election), []string{o.Election}, statement)
	switch {
	case err != nil:
		return beside.Result{Err: err}
	case !rows[o.Election].found && !was.found:
		err = fmt.Errorf("mysqltable: acquire %q: %w: no row can be added to %s: it takes another key "+
			"for the same, or its AUTO_INCREMENT is used up", o.Election, backend.ErrDenied, t.options.Table)
		return beside.Result{Err: err}
	}
	return t.result(rows[o.Election], o)
}

// result says what a row that was read after a write means to who wrote it.
func (t *table) result(r row, o *beside.Owned) beside.Result {
	s := t.state(r)
	if r.holder != t.shape.holderOf(o.ID, o.Term) {
		return beside.Result{Outcome: backend.Refused, State: s}
	}

	trust := beside.Always
	if !s.Sealed {
		trust = t.lifetime - r.age
	}
	if s.Most > 0 {
		trust = min(trust, s.Most)
	}
	if trust <= 0 || o.Sealed && !s.Sealed {
		err := fmt.Errorf("mysqltable: %q: %w: the row was written %v ago, by the server's clock, and is "+
			"not renewed: somebody else may have locked it", o.Election, backend.ErrUnavailable, r.age)
		return beside.Result{State: s, Err: err}
	}
	return beside.Result{Outcome: backend.Granted, ValidFor: trust, State: s}
}

// Keep implements [beside.Lock]. It renews the rows, and reads them then. Only that read says whether they
// are ours and for how long: the other programs compare a row's time with the server's clock, as it does.
func (t *table) Keep(ctx context.Context, owned []beside.Owned) (results []beside.Result, err error) {
	for part := range slices.Chunk(owned, chunk) {
		names, pairs := make([]string, len(part)), make([]string, len(part))
		for i, o := range part {
			names[i], pairs[i] = o.Election, pair(o.Election, t.shape.holderOf(o.ID, o.Term))
		}

		what := fmt.Sprintf("renew %d rows", len(part))
		unlocked, err := t.query(ctx, what, t.statement(unlockedSQL, strings.Join(pairs, ", ")))
		if err != nil {
			return results, err
		}
		pairs = []string{"(NULL, NULL)"}
		for _, cells := range unlocked {
			pairs = append(pairs, pair(string(cells[0]), string(cells[1])))
		}
		rows, err := t.read(ctx, what, names, t.statement(renewSQL, strings.Join(pairs, ", ")))
		if err != nil {
			return results, err
		}
		for i := range part {
			results = append(results, t.kept(ctx, rows[names[i]], &part[i]))
		}
	}
	return results, nil
}

// kept says what has become of a row that was to be renewed. One to be sealed, or no longer, is taken again.
func (t *table) kept(ctx context.Context, r row, o *beside.Owned) beside.Result {
	result := t.result(r, o)
	if r.holder == t.shape.holderOf(o.ID, o.Term) && o.Sealed != result.State.Sealed {
		result = t.take(ctx, o, r)
	}
	if result.Outcome == backend.Refused {
		result.Err = fmt.Errorf("mysqltable: %q: the row in %s was deleted, or names another: %.128q",
			o.Election, t.options.Table, result.State.Who)
	}
	return result
}

// Drop implements [beside.Lock]. A dropped row has a blank holder, and a time long ago if it is not sealed.
func (t *table) Drop(ctx context.Context, owned []beside.Owned) error {
	for part := range slices.Chunk(owned, chunk) {
		statements := make([]string, len(part))
		for i, o := range part {
			key := text(o.Election)
			statements[i] = t.statement(dropSQL, key, key, text(mark(o.Term)))
		}
		if _, err := t.query(ctx, fmt.Sprintf("release %d rows", len(part)), statements...); err != nil {
			return err
		}
	}
	return nil
}

// Wait implements [beside.Lock]: whoever comes first has the row.
func (t *table) Wait(context.Context, []beside.Owned) error { return nil }

// Listen implements [beside.Lock]: MySQL tells of no changes.
func (t *table) Listen(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (t *table) Preflight(ctx context.Context, elections []string) []error {
	_, err := t.query(ctx, "preflight", t.statement(noUpdateSQL), t.statement(noInsertSQL))
	return slices.Repeat([]error{err}, len(elections))
}
