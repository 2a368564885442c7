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
		s := scripted()
		s.lag = time.Millisecond
		s.fail(backend.ErrUnavailable, callAcquire)
		e := alone(t, s, Options{})
		run := func() (stop func(), ended chan error) {
			ctx, cancel := context.WithCancel(t.Context())
			ended = make(chan error, 1)
			go func() { ended <- e.Run(ctx, untilItEnds) }()
			return cancel, ended
		}
		stop, first := run()
		time.Sleep(time.Second)
		stop()
		for e.manager.Status().Elections[0].Campaigning {
			time.Sleep(100 * time.Microsecond)
		}
		stop, second := run()
		began := time.Now()
		if err := <-first; err != nil {
			t.Errorf("the first Run returned %v after %v; want nil", err, time.Since(began))
		}
		stop()
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// Each campaign that is given up once left a waiter behind.
func TestAWithdrawnCampaignLeavesNoWaiter(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		store := memory.New()
		alone(t, store.Backend(), Options{ID: "a"}).Lead(nil)
		synctest.Wait()
		e := alone(t, store.Backend(), Options{ID: "b"})
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
		e.manager.send(func(time.Duration) input {
			if len(e.waiters) > 0 {
				t.Errorf("%d waiters are left after their campaigns ended", len(e.waiters))
			}
			return nil
		})
	})
}

var errRefused = fmt.Errorf("too long a name: %w", backend.ErrInvalid)

func TestRunEndsWhenTheStoreRejectsTheCandidate(t *testing.T) {
	for _, leaderships := range []int{0, 1, 3} {
		inBubble(t, fmt.Sprintf("after %d leaderships", leaderships), func(t *testing.T) {
			store, led := scripted(), atomic.Int32{}
			store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
				if int(led.Load()) == leaderships {
					return []backend.Answer{{Err: errRefused}}, nil
				}
				return store.Backend.Acquire(ctx, bids)
			}
			e := alone(t, store, Options{})
			err := e.Run(t.Context(), func(ctx context.Context, _ *Leadership) error {
				led.Add(1)
				go e.Resign(t.Context())
				<-ctx.Done()
				return nil
			})
			if !errors.Is(err, errRefused) || int(led.Load()) != leaderships {
				t.Errorf("Run returns %v after %d leaderships, want %v after %d", err, led.Load(), errRefused, leaderships)
			}
		})
	}
}

// A grant whose answer comes too late has led nobody, so FailoverDelay does not apply.
func TestALateGrantIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted()
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			a, err := s.Backend.Acquire(ctx, bids)
			if s.n[callAcquire].Load() == 1 {
				time.Sleep(9 * time.Second) // its answer is late
			}
			return a, err
		}
		e := alone(t, s, Options{FailoverDelay: time.Minute})
		e.Lead(nil)
		began := time.Now()
		for !e.Leading() && time.Since(began) < 5*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("the first leader after %v, though nobody had led and failed", d)
		}
	})
}

func TestANeverHealthyCandidateIsNotElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{Health: func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return errors.New("unhealthy from the start")
		}})
		led := 0
		e.Lead(func(context.Context, *Leadership) error { led++; return nil })
		time.Sleep(time.Minute)
		if led > 0 {
			t.Errorf("elected %d times, and was never healthy", led)
		}
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
	})
}

// Who waits for its function cannot bid, so it does not accept a nomination.
func TestAStuckProcessIsNoNominee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hangs := memory.New(), make(chan struct{})
		a := alone(t, store.Backend(), Options{ID: "a", StepDownTimeout: time.Second})
		a.Lead(func(context.Context, *Leadership) error { <-hangs; return nil })
		time.Sleep(time.Second)
		b := alone(t, store.Backend(), Options{ID: "b"})
		b.Lead(nil)
		a.Pause()
		a.Resume()
		time.Sleep(time.Minute)
		l := b.Leadership()
		noError(t, b.Nominate(t.Context(), "a"))
		if time.Sleep(time.Minute); !l.Leading() {
			t.Error("the leader has stepped down for a process that cannot bid")
		}
		close(hangs)
	})
}

// A nomination that comes when the term is over says nothing about this candidate's rights.
func TestAStaleNominationIsNotLoggedAsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		s := &script{Backend: store.Backend()}
		s.fail(backend.ErrStale, callRequest)
		var text lockedText
		a := alone(t, store.Backend(), Options{ID: "a"})
		a.Lead(nil)
		time.Sleep(time.Second)
		alone(t, s, Options{ID: "b", Logger: slog.New(slog.NewTextHandler(&text, nil))}).Lead(nil)
		time.Sleep(time.Minute)
		noError(t, a.Nominate(t.Context(), "b"))
		time.Sleep(time.Second)
		if got := text.String(); strings.Contains(got, "level=ERROR") {
			t.Errorf("logged: %s", got)
		}
	})
}
