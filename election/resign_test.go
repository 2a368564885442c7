package election

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func TestResignEndsOneLeadershipOnly(t *testing.T) {
	inBubble(t, "a handle of Lead(nil) resigns its leadership", func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		e.Lead(nil)
		synctest.Wait()
		l := e.Leadership()
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil || l.Leading() {
			t.Errorf("Resign: %v, still leading: %v", err, l.Leading())
		}
	})
	inBubble(t, "a second Resign returns at once, and does not resign a newer leadership", func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		old, err := e.Campaign(t.Context())
		noError(t, err)
		noError(t, old.Resign(t.Context()))
		next, err := e.Campaign(t.Context())
		noError(t, err)
		ctx, cancel := soon()
		defer cancel()
		if err := old.Resign(ctx); err != nil || !next.Leading() { // as a deferred call does
			t.Errorf("Resign of a leadership that is over: %v, the next one goes on: %v", err, next.Leading())
		}
	})
	inBubble(t, "a candidate whose bid is on its way has nothing to resign", func(t *testing.T) {
		s := scripted()
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			defer time.Sleep(300 * time.Millisecond)
			return s.Backend.Acquire(ctx, bids)
		}
		e := alone(t, s, Options{})
		e.Lead(nil)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := soon()
		defer cancel()
		if err := e.Resign(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestAWaitingResignReturnsWhenTheManagerEnds(t *testing.T) {
	e := alone(t, memory.New().Backend(), Options{StepDownTimeout: time.Hour})
	stuck, started := make(chan struct{}), make(chan struct{})
	defer close(stuck)
	e.Lead(func(context.Context, *Leadership) error { close(started); <-stuck; return nil })
	<-started
	done := make(chan error, 1)
	go func() { done <- e.Resign(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := e.manager.Close(ctx); err == nil {
		t.Error("Close returns nil while a lead function runs")
	}
	<-done // Resign must return
}

// One row is locked. Release releases the other leases and returns an error, as its contract says.
func TestAnUnreleasableLeaseBlocksNoOtherElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		store := scripted()
		store.release = func(ctx context.Context, held []backend.Held) error {
			rest := slices.DeleteFunc(slices.Clone(held), func(l backend.Held) bool { return locked.Load() && l.Election == "e0" })
			if err := store.Backend.Release(ctx, rest); err != nil || len(rest) == len(held) {
				return err
			}
			return fmt.Errorf("%w: row e0 is locked", backend.ErrUnavailable)
		}
		m := manage(t, store, Options{})
		const elections = 50
		for i := range elections {
			joined(t, m, fmt.Sprint("e", i)).Lead(nil)
		}
		leading := func() (n int) {
			for _, e := range m.Elections() {
				n += boolInt(e.Leading())
			}
			return n
		}
		time.Sleep(time.Minute)
		locked.Store(true)
		m.Pause()
		time.Sleep(time.Second)
		m.Resume()
		time.Sleep(2 * time.Minute)
		if n := leading(); n != elections-1 {
			t.Errorf("two minutes after the step-down, with one locked row: %d of %d lead", n, elections)
		}
		if n := store.n[callRelease].Load(); n > 200 {
			t.Errorf("%d calls of Release in two minutes", n)
		}
		locked.Store(false)
		time.Sleep(time.Minute)
		if n := leading(); n != elections {
			t.Errorf("once it can be released: %d of %d lead", n, elections)
		}
	})
}
