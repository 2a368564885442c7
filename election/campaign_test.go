package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// The first Run's context ends while its bid has no outcome, and the program campaigns again at once.
func TestRunReturnsNilThoughAnotherRunBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) {
			return nil, backend.ErrUnavailable
		}
		m := manage(t, s, Options{})
		e := joined(t, m, "x")
		wait := func(ctx context.Context, _ *Leadership) error { <-ctx.Done(); return nil }
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- e.Run(ctx, wait) }()
		time.Sleep(time.Second)
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		second := make(chan error, 1)
		for e.manager.Status().Elections[0].Campaigning {
			time.Sleep(100 * time.Microsecond)
		}
		go func() { second <- e.Run(ctx, wait) }()
		began := time.Now()
		if err := <-first; err != nil {
			t.Errorf("the first Run returned %v after %v; want nil", err, time.Since(began))
		}
		cancel()
		if err := <-second; err != nil {
			t.Error(err)
		}
		closes(t, m)
	})
}

// Each campaign that is given up once left a waiter behind.
func TestAWithdrawnCampaignLeavesNoWaiter(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		store := memory.New()
		a, b := manage(t, store.Backend(), Options{ID: "a"}), manage(t, store.Backend(), Options{ID: "b"})
		joined(t, a, "x").Lead(nil)
		synctest.Wait()
		e := joined(t, b, "x")
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if l, err := e.Campaign(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("campaigns against a leader: %v, %v", l, err)
			}
			if err := e.Run(ctx, func(context.Context, *Leadership) error { return nil }); err != nil {
				t.Fatalf("runs until its context ends, which it has: %v", err)
			}
			cancel()
		}
		b.send(func(time.Duration) input {
			if len(e.waiters) > 0 {
				t.Errorf("%d waiters are left after their campaigns ended", len(e.waiters))
			}
			return nil
		})
		closes(t, a, b)
	})
}

// refusing is a store that rejects every bid for good once now is set.
type refusing struct {
	backend.Backend
	now atomic.Bool
}

var errRefused = fmt.Errorf("too long a name: %w", backend.ErrInvalid)

func (r *refusing) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if r.now.Load() {
		return []backend.Answer{{Err: errRefused}}, nil
	}
	return r.Backend.Acquire(ctx, bids)
}

func TestRunEndsWhenTheStoreRejectsTheCandidate(t *testing.T) {
	for _, leaderships := range []int{0, 1, 3} {
		inBubble(t, fmt.Sprintf("after %d leaderships", leaderships), func(t *testing.T) {
			store := &refusing{Backend: memory.New().Backend()}
			store.now.Store(leaderships == 0)
			m := manage(t, store, Options{})
			led := 0
			e := joined(t, m, "x")
			err := e.Run(t.Context(), func(ctx context.Context, _ *Leadership) error {
				led++
				store.now.Store(led == leaderships)
				go e.Resign(t.Context())
				<-ctx.Done()
				return nil
			})
			if !errors.Is(err, errRefused) || led != leaderships {
				t.Errorf("Run returns %v after %d leaderships, want %v after %d", err, led, errRefused, leaderships)
			}
			closes(t, m)
		})
	}
}

// A grant whose answer comes too late has led nobody, so FailoverDelay does not apply.
func TestALateGrantIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		s := &script{Backend: store.Backend()}
		n := 0
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			a, err := s.Backend.Acquire(ctx, bids)
			if n++; n == 1 {
				time.Sleep(9 * time.Second) // its answer is late
			}
			return a, err
		}
		m := manage(t, s, Options{FailoverDelay: time.Minute})
		e := joined(t, m, "x")
		e.Lead(nil)
		began := time.Now()
		for !e.Leading() && time.Since(began) < 5*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("the first leader after %v, though nobody had led and failed", d)
		}
		closes(t, m)
	})
}

func TestANeverHealthyCandidateIsNotElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := make(chan int, 9)
		m := manage(t, memory.New().Backend(), Options{Health: func(ctx context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return errors.New("unhealthy from the start")
		}})
		e := joined(t, m, "x")
		e.Lead(func(ctx context.Context, _ *Leadership) error { led <- 1; <-ctx.Done(); return nil })
		time.Sleep(time.Minute)
		if len(led) > 0 {
			t.Errorf("elected %d times, and was never healthy", len(led))
		}
		closes(t, m)
	})
}

func TestAPausedManagerPausesLaterJoins(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		m.Pause()
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(time.Minute)
		if e.Leading() {
			t.Error("leads while paused")
		}
		m.Resume()
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("does not lead after Resume")
		}
		closes(t, m)
	})
}

// A stale nomination says nothing about this candidate's rights.
func TestAStaleNominationIsNotLoggedAsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		s := &staleRequests{Backend: store.Backend()}
		var text lockedText
		a := manage(t, store.Backend(), Options{ID: "a"})
		joined(t, a, "x").Lead(nil)
		time.Sleep(time.Second)
		b := manage(t, s, Options{ID: "b", Logger: slog.New(slog.NewTextHandler(&text, nil))})
		joined(t, b, "x").Lead(nil)
		time.Sleep(time.Minute)
		if err := a.Election("x").Nominate(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := text.String(); strings.Contains(got, "level=ERROR") {
			t.Errorf("logged: %s", got)
		}
		closes(t, a, b)
	})
}

// staleRequests is a store in which the term is always over when a request comes.
type staleRequests struct{ backend.Backend }

func (staleRequests) Request(context.Context, []backend.Request) error { return backend.ErrStale }
