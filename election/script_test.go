package election

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// script is a store some of whose calls are as a test says. Each call takes lag.
type script struct {
	backend.Backend
	lag      time.Duration
	acquire  func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error)
	renew    func(ctx context.Context, held []backend.Held) ([]backend.Answer, error)
	release  func(ctx context.Context, held []backend.Held) error
	observe  func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error)
	listen   func(ctx context.Context, seen []backend.Lease) error
	promises func(*backend.Guarantees)
	n        [calls]atomic.Int64
	mu       sync.RWMutex
}

// set changes the script.
func (s *script) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func of[F any](s *script, f *F) F {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return *f
}

func (s *script) Guarantees() backend.Guarantees {
	g := s.Backend.Guarantees()
	if s.promises != nil {
		s.promises(&g)
	}
	return g
}

func (s *script) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	s.n[callAcquire].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.acquire); f != nil {
		return f(ctx, bids)
	}
	return s.Backend.Acquire(ctx, bids)
}

func (s *script) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	s.n[callRenew].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.renew); f != nil {
		return f(ctx, held)
	}
	return s.Backend.Renew(ctx, held)
}

func (s *script) Release(ctx context.Context, held []backend.Held) error {
	s.n[callRelease].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.release); f != nil {
		return f(ctx, held)
	}
	return s.Backend.Release(ctx, held)
}

func (s *script) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	s.n[callObserve].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.observe); f != nil {
		return f(ctx, seen)
	}
	return s.Backend.Observe(ctx, seen)
}

func (s *script) Listen(ctx context.Context, seen []backend.Lease) error {
	s.n[callListen].Add(1)
	if f := of(s, &s.listen); f != nil {
		return f(ctx, seen)
	}
	return s.Backend.Listen(ctx, seen)
}

// The last reading fails, and then this process wins all that it has joined: it reads
// nothing any more, and is unreachable for ever.
func TestALeaderOfAllElectionsIsNotUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		eyes := &blind{Backend: polled{store.Backend()}}
		other := &script{Backend: store.Backend()}
		b := manage(t, other, Options{ID: "b"})
		joined(t, b, "x").Lead(nil)
		time.Sleep(time.Second)
		a := manage(t, eyes, Options{ID: "a"})
		x := joined(t, a, "x")
		x.Lead(nil)
		time.Sleep(30 * time.Second)
		// The leader is cut off for good; the follower's readings fail from 6 s later on, while the
		// watch goes on, and work again just after its bid was granted.
		down := func(context.Context, []backend.Held) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
		other.set(func() {
			other.renew = down
			other.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			other.release = func(context.Context, []backend.Held) error { return backend.ErrUnavailable }
		})
		time.Sleep(6 * time.Second)
		eyes.is.Store(true)
		for range 100 {
			if time.Sleep(100 * time.Millisecond); x.Leading() {
				break
			}
		}
		eyes.is.Store(false)
		if !x.Leading() {
			t.Fatal("not elected")
		}
		time.Sleep(time.Hour)
		if s := a.Status(); s.Unreachable || s.Err != nil {
			t.Errorf("an hour later, leading %v and renewing every 3 s: unreachable %v, contact %v ago, %v", x.Leading(), s.Unreachable, s.Contact, s.Err)
		}
		other.set(func() { other.renew, other.acquire, other.release = nil, nil, nil })
		closes(t, a, b)
	})
}

// Run's ctx ends while it queues, and somebody campaigns again at once.
func TestRunReturnsNilThoughAnotherRunBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := backend.Lease{Election: "x", Holder: backend.Candidate{ID: "o", Nonce: "o"}, Term: 5, Heartbeat: 1, TTL: 10 * time.Second, ObserveFor: backend.ExpiresInStore}
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.observe = func(context.Context, []backend.Lease) ([]backend.Lease, error) {
			return []backend.Lease{held}, nil
		}
		s.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) {
			return []backend.Answer{{Lease: held, Outcome: backend.Refused}}, nil
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

// Legacy layouts have no terms: an old handle resigns the new leadership.
func TestAnOldHandleWithoutATermResignsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{Backend: memory.New().Backend()}
		var real sync.Map
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			for i := range bids {
				if v, ok := real.Load(bids[i].Election); ok {
					bids[i].Expected.Term = v.(uint64)
				}
			}
			a, err := s.Backend.Acquire(ctx, bids)
			for i := range a {
				real.Store(a[i].Election, a[i].Term)
				a[i].Term = 0
			}
			return a, err
		}
		s.observe = func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
			l, err := s.Backend.Observe(ctx, seen)
			for i := range l {
				l[i].Term = 0
			}
			return l, err
		}
		restore := func(held []backend.Held) (out []backend.Held) {
			for _, l := range held {
				if v, ok := real.Load(l.Election); ok {
					l.Term = v.(uint64)
				}
				out = append(out, l)
			}
			return out
		}
		s.renew = func(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
			a, err := s.Backend.Renew(ctx, restore(held))
			for i := range a {
				a[i].Term = 0
			}
			return a, err
		}
		s.promises = func(g *backend.Guarantees) { g.Push, g.Poll = false, true }
		m := manage(t, s, Options{})
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

// An operator's request that comes too late is no refusal of this candidate.
func TestAStaleNominationIsNotLoggedAsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		s := &asks{Backend: store.Backend()}
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

// asks is a store in which each term is over when somebody asks.
type asks struct{ backend.Backend }

func (asks) Request(context.Context, []backend.Request) error { return backend.ErrStale }

type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A callback that ends its goroutine, as t.FailNow does, is called again with what follows.
func TestACallbackThatEndsItsGoroutineIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
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
		if s := m.Stats(); s.Waiting > 0 || told.Load() < 10 {
			t.Errorf("%d events wait for a callback that was called %d times", s.Waiting, told.Load())
		}
		closes(t, m)
	})
}

func TestASetBackWallClockStillShowsASuspension(t *testing.T) {
	c := newClock()
	c.jumped(-int64(time.Hour))        // set back by an hour
	c.jumped(-int64(50 * time.Minute)) // and the machine was suspended for ten minutes
	if ahead := time.Duration(c.ahead.Load()); ahead != 10*time.Minute {
		t.Errorf("a holder believes that %v have passed, want 10m0s", ahead)
	}
}

func TestADetectedSuspensionCancelsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		l, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := l.Context()
		m.clock.jumped(int64(time.Hour)) // as Leading finds it
		synctest.Wait()                  // no time passes
		if ctx.Err() == nil {
			t.Error("not leading, and the context goes on until a timer fires")
		}
		l.Resign(t.Context())
		closes(t, m)
	})
}

// Nobody has led under it.
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
			t.Errorf("nobody has led yet, so nobody has failed; the first leader after %v", d)
		}
		closes(t, m)
	})
}

// Whoever tries waits for the first check.
func TestTryWaitsForTheFirstHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{Health: func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}})
		l, err := joined(t, m, "x").Try(t.Context())
		if err != nil || l == nil {
			t.Fatalf("nobody else is there: want it elected, got %v, %v", l, err)
		}
		l.Resign(t.Context())
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
			t.Errorf("elected %d times, and was never well", len(led))
		}
		closes(t, m)
	})
}
