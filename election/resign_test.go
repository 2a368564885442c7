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
	wait := func(ctx context.Context, _ *Leadership) error { <-ctx.Done(); return nil }

	inBubble(t, "a handle of Lead(nil) resigns its leadership", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		synctest.Wait()
		l := e.Leadership()
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil || l.Leading() {
			t.Errorf("Resign: %v, still leading: %v", err, l.Leading())
		}
		closes(t, m)
	})
	inBubble(t, "an old handle does not resign a newer leadership", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(wait)
		synctest.Wait()
		old := e.Leadership()
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		next := e.Leadership()
		if next == nil || next.Term <= old.Term {
			t.Fatal("not elected again")
		}
		if err := old.Resign(t.Context()); err != nil || !next.Leading() {
			t.Errorf("Resign of a leadership that is over: %v, the next one goes on: %v", err, next.Leading())
		}
		closes(t, m)
	})
	inBubble(t, "a second Resign returns at once", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		first, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := soon()
		defer cancel()
		if err := first.Resign(ctx); err != nil {
			t.Error(err)
		}
		closes(t, m)
	})
	inBubble(t, "a candidate whose bid is on its way has nothing to resign", func(t *testing.T) {
		m := manage(t, slowBids{memory.New().Backend()}, Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := soon()
		defer cancel()
		if err := e.Resign(ctx); err != nil {
			t.Error(err)
		}
		closes(t, m)
	})
}

// slowBids answers bids late.
type slowBids struct{ backend.Backend }

func (b slowBids) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	a, err := b.Backend.Acquire(ctx, bids)
	time.Sleep(300 * time.Millisecond)
	return a, err
}

func TestAWaitingResignReturnsWhenTheManagerEnds(t *testing.T) {
	m := manage(t, memory.New().Backend(), Options{StepDownTimeout: time.Hour})
	e := joined(t, m, "x")
	stuck := make(chan struct{})
	defer close(stuck)
	started := make(chan struct{})
	e.Lead(func(context.Context, *Leadership) error { close(started); <-stuck; return nil })
	<-started
	done := make(chan error, 1)
	go func() { done <- e.Resign(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); err == nil {
		t.Error("Close returns nil while a lead function runs")
	}
	<-done // Resign must return
}

func TestAnOldHandleResignsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		old, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old.Resign(t.Context()) // as a deferred call does
		if !next.Leading() {
			t.Error("the handle of an earlier leadership has ended the present one")
		}
		closes(t, m)
	})
}

func TestAnUnreleasableLeaseBlocksNoOtherElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &partlyLocked{Backend: memory.New().Backend()}
		m := manage(t, store, Options{ID: "only"})
		var elections []*Election
		for i := range 50 {
			e := joined(t, m, fmt.Sprint("e", i))
			e.Lead(nil)
			elections = append(elections, e)
		}
		leading := func() (n int) {
			for _, e := range elections {
				if e.Leading() {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		store.locked.Store(true)
		m.Pause()
		time.Sleep(time.Second)
		m.Resume()
		time.Sleep(2 * time.Minute)
		if n := leading(); n != len(elections)-1 {
			t.Errorf("two minutes after the step-down, with one locked row: %d of %d lead", n, len(elections))
		}
		if n := store.calls.Load(); n > 200 {
			t.Errorf("%d calls of Release in two minutes", n)
		}
		store.locked.Store(false)
		time.Sleep(time.Minute)
		if n := leading(); n != len(elections) {
			t.Errorf("once it can be released: %d of %d lead", n, len(elections))
		}
		closes(t, m)
	})
}

// partlyLocked is a store in which one row is locked. Release releases the other leases and returns an
// error, as its contract says.
type partlyLocked struct {
	backend.Backend
	locked atomic.Bool
	calls  atomic.Int64
}

func (s *partlyLocked) Release(ctx context.Context, held []backend.Held) error {
	s.calls.Add(1)
	if !s.locked.Load() {
		return s.Backend.Release(ctx, held)
	}
	rest := slices.DeleteFunc(slices.Clone(held), func(l backend.Held) bool { return l.Election == "e0" })
	if len(rest) > 0 {
		if err := s.Backend.Release(ctx, rest); err != nil {
			return err
		}
	}
	if len(rest) < len(held) {
		return fmt.Errorf("%w: row e0 is locked", backend.ErrUnavailable)
	}
	return nil
}
