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
	names   *strings.Replacer
	checked atomic.Bool // its time is a TIMESTAMP

	// lifetime is for how long a row is safe from the other programs, and how long one of theirs is watched.
	lifetime time.Duration
}

// chunk is how many elections one message is about.
const chunk = 500

// Close implements [beside.Lock].
func (t *table) Close() error { return nil }

// state says what a row means. Each row that is not ours is watched for as long as one of another program's
// may be relied on, also one that an operator has deleted: the program that led by it may not have read it
// since.
func (t *table) state(r *row) beside.State {
	s := beside.State{Sealed: r.time == sealed, Watch: t.lifetime, Version: "no row", Seen: *r}
	switch {
	case !r.found:
		return s
	case r.holder == "" && (r.time == vacated || r.time == sealed):
		s.Free = true
	default:
		s.Term, s.Who, s.TTL, s.Age = termOf(r.holder), r.holder, s.Watch, max(r.age, 0)
		s.Version = fmt.Sprintf("row %08x %.19s", crc32.ChecksumIEEE([]byte(r.holder)), r.time)
		s.Firm = s.Term == 0 && !r.expired
	}

	// When clocks spring forward, a row that was written a second before is an hour old to the other
	// programs.
	now := r.now.In(t.zone)
	_, before := now.Zone()
	if _, end := now.ZoneBounds(); !end.IsZero() {
		if _, after := end.Zone(); after > before {
			s.Most = max(end.Sub(now), 1)
		}
	}
	return s
}

// Read implements [beside.Lock].
func (t *table) Read(ctx context.Context, elections []string) (states []beside.State, err error) {
	for part := range slices.Chunk(elections, chunk) {
		rows, err := t.read(ctx, "read", part)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			s := t.state(&rows[i])
			s.Err = t.check(part[i])
			states = append(states, s)
		}
	}
	return states, nil
}

// Take implements [beside.Lock].
func (t *table) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	results := make([]beside.Result, len(takings))
	for i := range takings {
		was := takings[i].Was.Seen.(row)
		results[i] = t.take(ctx, &takings[i].Owned, &was)
	}
	return results, nil
}

// take takes a row, or makes it. The statement is pinned to the holder and the time that were read, and if
// they are another program's, to its own comparison.
func (t *table) take(ctx context.Context, o *beside.Owned, was *row) beside.Result {
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
	case !rows[0].found && !was.found:
		return beside.Result{Err: fmt.Errorf("mysqltable: acquire %q: %w: no row can be added to %s: "+
			"it takes another key for the same, or its AUTO_INCREMENT is used up",
			o.Election, backend.ErrDenied, t.options.Table)}
	}
	return t.result(&rows[0], o)
}

// result says what a row that was read after a write means to who wrote it.
func (t *table) result(r *row, o *beside.Owned) beside.Result {
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
		err := fmt.Errorf("mysqltable: %q: %w: the row was written %v ago, by the server's clock, and is not renewed: somebody else may have locked it",
			o.Election, backend.ErrUnavailable, r.age)
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
		rows, err := t.renew(ctx, names, pairs)
		if err != nil {
			return results, err
		}
		for i := range part {
			results = append(results, t.kept(ctx, &rows[i], &part[i]))
		}
	}
	return results, nil
}

// renew renews those rows that nobody else has locked, and reads all.
func (t *table) renew(ctx context.Context, elections, pairs []string) ([]row, error) {
	what := fmt.Sprintf("renew %d rows", len(elections))
	unlocked, err := t.query(ctx, what, t.statement(unlockedSQL, strings.Join(pairs, ", ")))
	if err != nil {
		return nil, err
	}
	pairs = []string{"(NULL, NULL)"}
	for _, cells := range unlocked {
		pairs = append(pairs, pair(string(cells[0]), string(cells[1])))
	}
	return t.read(ctx, what, elections, t.statement(renewSQL, strings.Join(pairs, ", ")))
}

// kept says what has become of a row that was to be renewed. One that is to be sealed, or no longer, is taken
// once more as it is.
func (t *table) kept(ctx context.Context, r *row, o *beside.Owned) beside.Result {
	result := t.result(r, o)
	if r.holder == t.shape.holderOf(o.ID, o.Term) && o.Sealed != (r.time == sealed) {
		result = t.take(ctx, o, r)
	}
	if result.Outcome == backend.Refused {
		result.Err = fmt.Errorf("mysqltable: %q: the row in %s was deleted, or names another: %.128q", o.Election, t.options.Table, result.State.Who)
	}
	return result
}

// Drop implements [beside.Lock]. A row that was dropped has a blank holder, and a time long ago if it is not
// sealed.
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

// Preflight implements [beside.Lock].
func (t *table) Preflight(ctx context.Context, elections []string) []error {
	_, err := t.query(ctx, "preflight", t.statement(noUpdateSQL), t.statement(noInsertSQL))
	return slices.Repeat([]error{err}, len(elections))
}
