package election

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
)

func TestAWatcherOfALeftElectionEnds(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		noError(t, e.Leave(t.Context()))
		e.Watch(func(Event) {})
	})
}

func TestWatchAndCloseDoNotRace(t *testing.T) {
	for range 300 {
		m := manage(t, memory.New().Backend(), Options{})
		joined(t, m, "x")
		done := make(chan struct{})
		go func() { m.Watch(func(Event) {}); close(done) }()
		closes(t, m)
		<-done
	}
}

// A slow watcher of thousands of elections once blocked the loop until all of them were lost.
func TestASlowWatcherDoesNotBlockTheLoop(t *testing.T) {
	const n = 3000
	m := manage(t, memory.New().Backend(), Options{})
	elections := make([]*Election, n)
	for i := range elections {
		elections[i] = joined(t, m, fmt.Sprint("election/number/", i))
		elections[i].Lead(nil)
	}
	for _, e := range elections {
		for !e.Leading() {
			m.send(func(time.Duration) input { return nil })
		}
	}
	hold := make(chan struct{})
	m.Watch(func(Event) { <-hold })
	began := time.Now()
	m.send(func(time.Duration) input { return nil }) // the loop is free again
	if d := time.Since(began); d > 8*time.Second {   // the TTL is 10 s; a busy machine may be slow
		t.Errorf("the loop was busy for %v", d)
	}
	close(hold)
	closes(t, m)
}

// A callback that ends its goroutine, as t.FailNow does, still gets the following events.
func TestACallbackThatEndsItsGoroutineIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		var told atomic.Int32
		e.Watch(func(Event) {
			if told.Add(1) == 2 {
				runtime.Goexit()
			}
		})
		e.Lead(nil)
		for range 5 {
			time.Sleep(time.Minute)
			e.Resign(t.Context())
		}
		time.Sleep(time.Minute)
		if s := e.manager.Stats(); s.Waiting > 0 || told.Load() < 10 {
			t.Errorf("%d events wait for a callback that was called %d times", s.Waiting, told.Load())
		}
	})
}
