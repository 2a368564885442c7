// Package drivertest has what the tests of several drivers assert in the same words: on the servers of
// lab/testbed, and about the protocol of backend/lease. What every driver must pass is in
// conformance/leasetest and in conformance; here is what holds for a kind of store: one with a table
// ([RunSQLTable]), with a replica ([Failovers]), with notifications ([Listen], [HandsOver]), which another
// one may answer for ([Elsewhere], [NotInTurns]), or to which another program's elections move ([Road]). And
// a [Candidate] does by hand what a manager does.
package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// Read reads items with a driver once its server answers.
func Read(t testing.TB, d lease.Driver, keys ...lease.Key) (v lease.View) {
	t.Helper()
	testbed.Eventually(t, patience, "the server answers", func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		v, err = d.Read(ctx, keys)
		return err
	})
	return v
}

// Put writes records over what was read in a view, and returns the result of each.
func Put(t testing.TB, d lease.Driver, v *lease.View, records ...*lease.Record) ([]lease.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var changes []lease.Change
	for _, r := range records {
		was := lease.Item{Key: key(r.Election)}
		for _, it := range v.Items {
			if it.Key == was.Key {
				was = it
			}
		}
		changes = append(changes, over(was, r))
	}
	w, err := d.Write(ctx, v.Epoch, v.WentBack, changes, nil)
	return w.Results, err
}

func key(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }

// over is a change of one record.
func over(was lease.Item, r *lease.Record) lease.Change {
	return lease.Change{Put: []lease.Put{{Over: was, Value: r}}}
}

// MustPut is Put, and fails the test unless all records are granted.
func MustPut(t testing.TB, d lease.Driver, v *lease.View, records ...*lease.Record) {
	t.Helper()
	results, err := Put(t, d, v, records...)
	testbed.NoError(t, err)
	for _, r := range results {
		if r.Outcome != backend.Granted {
			t.Fatalf("want all changes granted, got %+v", results)
		}
	}
}

// Held returns what a holder of these leases passes to Renew, Mark and Release.
func Held(leases ...backend.Lease) []backend.Held {
	held := make([]backend.Held, len(leases))
	for i, l := range leases {
		held[i] = l.Held()
	}
	return held
}

// A Hearing is what a listener is told: the positions.
type Hearing chan uint64

// Listen runs a listener until the test ends. It calls Listen again whenever that ends.
func Listen(t testing.TB, d interface {
	lease.Driver
	lease.Listener
}) Hearing {
	t.Helper()
	heard, position := make(Hearing, 1000), Read(t, d).Position
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.Listen(ctx, position, nil, func(_ []lease.Item, now uint64) bool {
				position = now
				heard <- now
				return true
			})
		}
	}()
	return heard
}

// Calm waits until a listener has heard nothing for a second: what it says of a new connection is over.
func (h Hearing) Calm() {
	for quiet := time.After(time.Second); ; {
		select {
		case <-h:
			quiet = time.After(time.Second)
		case <-quiet:
			return
		}
	}
}

// Told waits until a listener is told of something, and returns the position.
func (h Hearing) Told(t testing.TB, what string) (position uint64) {
	t.Helper()
	select {
	case position = <-h:
	case <-time.After(patience):
		t.Fatalf("nobody was told of %s", what)
	}
	return position
}

// NotTold fails the test if a listener is told something within a second.
func (h Hearing) NotTold(t testing.TB, why string) {
	t.Helper()
	select {
	case <-h:
		t.Error("a listener was told of something: " + why)
	case <-time.After(time.Second):
	}
}

// Notify changes the record of the election jobs, and tells listeners.
func Notify(t testing.TB, d lease.Driver) {
	t.Helper()
	v := Read(t, d, key("jobs"))
	c := over(v.Items[0], &lease.Record{Election: "jobs", Term: 1, Nonce: "n"})
	c.Notify = true
	w, err := d.Write(t.Context(), v.Epoch, v.WentBack, []lease.Change{c}, nil)
	if err != nil || w.Results[0].Outcome != backend.Granted {
		t.Fatal(w, err)
	}
}
