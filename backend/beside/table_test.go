package beside_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// A table is the reference for a [beside.Lock]: rows in memory, each with a holder and the time of its last
// renewal. Other programs take a row that was not renewed for Threshold. It is safe for concurrent use.
type table struct {
	Threshold time.Duration

	mu   sync.Mutex
	rows map[string]*row
}

// A row is one lock. It is of this module if term is not 0.
type row struct {
	holder  string
	term    uint64
	free    bool
	sealed  bool
	at      time.Time
	version int
}

func newTable(threshold time.Duration) *table {
	return &table{Threshold: threshold, rows: map[string]*row{}}
}

func (t *table) Lock() beside.Lock { return client{t} }

// Run runs another program's statement once: it renews the row of an election, takes it if the row has
// expired, or does nothing. It reports whether the program leads then.
func (t *table) Run(election, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[election]
	if r == nil {
		r = &row{free: true}
		t.rows[election] = r
	}

	mine := r.term == 0 && r.holder == id
	if !mine && !r.free && !t.expired(r) || r.sealed {
		return false
	}
	*r = row{holder: id, at: time.Now(), version: r.version + 1}
	return true
}

// Delete deletes a row, as an operator does who wants another leader.
func (t *table) Delete(election string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, election)
}

func (t *table) expired(r *row) bool { return !r.sealed && time.Since(r.at) >= t.Threshold }

// state is what a client reads of a row.
func (t *table) state(election string) beside.State {
	r := t.rows[election]
	if r == nil {
		return beside.State{Watch: t.Threshold / 15, Version: "no row", Seen: 0}
	}
	return beside.State{
		Term: r.term, Free: r.free, Who: r.holder, Sealed: r.sealed,
		Watch: t.Threshold, TTL: t.Threshold, Age: time.Since(r.at),
		Version: fmt.Sprint(r.version), Seen: r.version,
		Firm: r.term == 0 && !r.free && !r.sealed && !t.expired(r),
	}
}

// A client is one process's access to a table.
type client struct{ *table }

// each makes one statement about each of some rows, and returns what became of them.
func each[T, R any](ctx context.Context, c client, of []T, do func(T) R) (results []R, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range of {
		results = append(results, do(one))
	}
	return results, nil
}

func (c client) Read(ctx context.Context, elections []string) ([]beside.State, error) {
	return each(ctx, c, elections, c.state)
}

func (c client) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	return each(ctx, c, takings, func(t beside.Taking) beside.Result {
		version := 0
		if r := c.rows[t.Election]; r != nil {
			version = r.version
		}
		if version != t.Was.Seen || c.state(t.Election).Firm {
			return beside.Result{Outcome: backend.Refused, State: c.state(t.Election)}
		}
		c.rows[t.Election] = &row{holder: t.ID, term: t.Term, sealed: t.Sealed, at: time.Now(), version: version + 1}
		return c.granted(t.Owned)
	})
}

func (c client) granted(o beside.Owned) beside.Result {
	r := beside.Result{Outcome: backend.Granted, ValidFor: c.Threshold, State: c.state(o.Election)}
	if o.Sealed {
		r.ValidFor = beside.Always
	}
	return r
}

func (c client) Keep(ctx context.Context, owned []beside.Owned) ([]beside.Result, error) {
	return each(ctx, c, owned, func(o beside.Owned) beside.Result {
		r := c.rows[o.Election]
		if r == nil || r.term != o.Term {
			err := fmt.Errorf("the row of %q was taken or deleted", o.Election)
			return beside.Result{Outcome: backend.Refused, State: c.state(o.Election), Err: err}
		}
		r.at, r.sealed, r.version = time.Now(), o.Sealed, r.version+1
		return c.granted(o)
	})
}

func (c client) Drop(ctx context.Context, owned []beside.Owned) error {
	_, err := each(ctx, c, owned, func(o beside.Owned) (none struct{}) {
		if r := c.rows[o.Election]; r != nil && r.term == o.Term {
			*r = row{free: true, sealed: r.sealed, version: r.version + 1}
		}
		return none
	})
	return err
}

func (c client) Wait(context.Context, []beside.Owned) error { return nil }

func (c client) Listen(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c client) Preflight(context.Context, []string) []error { return nil }
func (c client) Close() error                                { return nil }
