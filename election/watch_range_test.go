package election

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
)

// Events yields the events of Watch, in the same order, until this process leaves the election.
func TestEventsYieldsWhatAWatcherReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		synctest.Wait() // until the first reading: both begin with the same state
		var watched, ranged []string
		e.Watch(func(ev Event) { watched = append(watched, ev.String()) })
		done := make(chan error)
		go func() {
			var inside error
			for ev := range e.Events(t.Context()) {
				ranged = append(ranged, ev.String())
				inside = e.manager.Close(t.Context())
			}
			done <- inside
		}()
		synctest.Wait() // until both have heard the first event
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		closes(t, e.manager)
		if err := <-done; !errors.Is(err, ErrOwnCaller) {
			t.Errorf("Close in the body of the range: %v, want %v", err, ErrOwnCaller)
		}
		if fmt.Sprint(ranged) != fmt.Sprint(watched) || len(ranged) < 3 {
			t.Errorf("the range had %q, the watcher %q", ranged, watched)
		}
		for ev := range e.Events(t.Context()) {
			t.Errorf("after Close there is the event %v", ev)
		}
	})
}

func TestEventsEndWithTheContextAndWithBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		for range e.Events(t.Context()) {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		for range e.manager.Events(ctx) {
			n++
		}
		if n == 0 || ctx.Err() == nil {
			t.Errorf("the range ended after %d events, its context: %v", n, ctx.Err())
		}
	})
}

// Records reads several pages, and yields clean text.
func TestRecordsYieldsEveryElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := manage(t, store.Backend(), Options{})
		const many = 1001 // three pages
		for i := range many {
			joined(t, m, fmt.Sprintf("job %04d", i)).Lead(nil)
		}
		time.Sleep(time.Second)
		n := 0
		for r, err := range m.Records(t.Context()) {
			if want := fmt.Sprintf("job %04d", n); err != nil || r.Election != want || r.Holder.ID != m.ID() {
				t.Fatalf("record %d is %+v, %v, want %s", n, r, err, want)
			}
			n++
		}
		if n != many {
			t.Errorf("%d records, want %d", n, many)
		}
		for range m.Records(t.Context()) {
			break
		}
		closes(t, m)
		for r, err := range m.Records(t.Context()) {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v, %v", r, err)
			}
		}
	})
}
