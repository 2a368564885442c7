package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

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
