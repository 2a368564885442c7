package testbed

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// TakeAll makes a driver have n connections.
func TakeAll[C any](t testing.TB, pool *client.Pool[C], n int) {
	t.Helper()
	var all []*client.Conn[C]
	for range n {
		c, err := pool.Take(t.Context(), true)
		NoError(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		pool.Give(c, false)
	}
}

// NotInTurns reads several times: the server changes once.
func NotInTurns(t testing.TB, d lease.Driver, before string) {
	t.Helper()
	changes, last := 0, before
	for range 6 {
		v, err := d.Read(t.Context(), nil)
		if errors.Is(err, backend.ErrDenied) {
			t.Fatal(err) // they take turns
		}
		if err == nil && v.Epoch != last {
			changes, last = changes+1, v.Epoch
		}
	}
	if changes != 1 || last == before {
		t.Errorf("the answers came from one server and the other: %d changes", changes)
	}
}

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// Read reads items with a driver once its server answers.
func Read(t testing.TB, d lease.Driver, keys ...lease.Key) (v lease.View) {
	t.Helper()
	Eventually(t, patience, "the server answers", func() (err error) {
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
		over := lease.Item{Key: lease.Key{Kind: lease.Records, Name: r.Election}}
		for _, it := range v.Items {
			if it.Key == over.Key {
				over = it
			}
		}
		changes = append(changes, lease.Change{Put: []lease.Put{{Over: over, Value: r}}})
	}
	w, err := d.Write(ctx, v.Epoch, v.WentBack, changes, nil)
	return w.Results, err
}

// MustPut is Put, and fails the test unless all records are granted.
func MustPut(t testing.TB, d lease.Driver, v *lease.View, records ...*lease.Record) {
	t.Helper()
	results, err := Put(t, d, v, records...)
	for _, r := range results {
		if err != nil || r.Outcome != backend.Granted {
			t.Fatalf("want all changes granted, got %+v, %v", results, err)
		}
	}
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
	v := Read(t, d, record("jobs"))
	w, err := d.Write(t.Context(), v.Epoch, v.WentBack, []lease.Change{{Notify: true, Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1, Nonce: "n"}}}}}, nil)
	if err != nil || w.Results[0].Outcome != backend.Granted {
		t.Fatal(w, err)
	}
}
