package election

import (
	"context"
	"errors"
	"fmt"
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
	renew    func(ctx context.Context, held []backend.Lease) ([]backend.Answer, error)
	release  func(ctx context.Context, held []backend.Lease) error
	observe  func(ctx context.Context, seen []backend.Lease, after string) ([]backend.Lease, string, error)
	listen   func(ctx context.Context, seen []backend.Lease, after string) error
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

func (s *script) Renew(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
	s.n[callRenew].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.renew); f != nil {
		return f(ctx, held)
	}
	return s.Backend.Renew(ctx, held)
}

func (s *script) Release(ctx context.Context, held []backend.Lease) error {
	s.n[callRelease].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.release); f != nil {
		return f(ctx, held)
	}
	return s.Backend.Release(ctx, held)
}

func (s *script) Observe(ctx context.Context, seen []backend.Lease, after string) ([]backend.Lease, string, error) {
	s.n[callObserve].Add(1)
	time.Sleep(s.lag)
	if f := of(s, &s.observe); f != nil {
		return f(ctx, seen, after)
	}
	return s.Backend.Observe(ctx, seen, after)
}

func (s *script) Listen(ctx context.Context, seen []backend.Lease, after string) error {
	s.n[callListen].Add(1)
	if f := of(s, &s.listen); f != nil {
		return f(ctx, seen, after)
	}
	return s.Backend.Listen(ctx, seen, after)
}

// A bid that is refused for another reason than a holder (Answer.Err) leaves what was
// seen as it was: free. mysqltable answers so while clocks spring forward within a TTL.
func TestABidThatIsRefusedWithAnErrorIsNotRepeatedWithoutAPause(t *testing.T) {
	for what, why := range map[string]error{"unavailable": backend.ErrUnavailable, "denied": backend.ErrDenied} {
		inBubble(t, what, func(t *testing.T) {
			s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
			s.acquire = func(_ context.Context, bids []backend.Bid) ([]backend.Answer, error) {
				return []backend.Answer{{Lease: bids[0].Over, Outcome: backend.Refused, Err: why}}, nil
			}
			m := manage(t, s, Options{})
			joined(t, m, "x").Lead(nil)
			time.Sleep(10 * time.Second)
			if n := s.n[callAcquire].Load(); n > 30 {
				t.Errorf("%d bids in 10 s", n)
			}
			closes(t, m)
		})
	}
	inBubble(t, "no error, and the lease is free all the same", func(t *testing.T) {
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.acquire = func(_ context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			return []backend.Answer{{Lease: bids[0].Over, Outcome: backend.Refused}}, nil
		}
		m := manage(t, s, Options{})
		joined(t, m, "x").Lead(nil)
		time.Sleep(10 * time.Second)
		if n := s.n[callAcquire].Load(); n > 30 {
			t.Errorf("%d bids in 10 s", n)
		}
		closes(t, m)
	})
}

// A grant that is over when it is heard of (a session with little left).
func TestAGrantThatCannotBeTrustedIsNotRepeatedWithoutAPause(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			a, err := s.Backend.Acquire(ctx, bids)
			for i := range a {
				a[i].Trust = time.Second // less than Margin
			}
			return a, err
		}
		m := manage(t, s, Options{})
		joined(t, m, "x").Lead(nil)
		time.Sleep(10 * time.Second)
		if n := s.n[callAcquire].Load(); n > 30 {
			t.Errorf("%d grants and %d releases in 10 s, and nobody led", n, s.n[callRelease].Load())
		}
		closes(t, m)
	})
}

// A bell that rings for nothing, and an election that was never held: the store
// returns that one at each reading, so that each ring seems to have brought news.
func TestABellThatRingsForNothingIsHeardLessThoughAnElectionWasNeverHeld(t *testing.T) {
	for _, held := range []bool{true, false} {
		inBubble(t, fmt.Sprint("held ", held), func(t *testing.T) {
			store := memory.New()
			s := &script{Backend: store.Backend(), lag: time.Millisecond}
			s.listen = func(context.Context, []backend.Lease, string) error { time.Sleep(time.Millisecond); return nil }
			m := manage(t, s, Options{})
			joined(t, m, "x") // an observer
			other := manage(t, store.Backend(), Options{})
			e := joined(t, other, "x")
			if held {
				e.Lead(nil)
			}
			time.Sleep(10 * time.Second)
			if n := s.n[callListen].Load(); n > 100 {
				t.Errorf("%d listens and %d readings in 10 s", n, s.n[callObserve].Load())
			}
			closes(t, m, other)
		})
	}
}

// Renewals that fail are repeated one by one.
func TestRenewalsOfManyThatFailTravelTogether(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		const n = 1000
		s := &script{Backend: memory.New().Backend(), lag: 100 * time.Microsecond}
		m := manage(t, s, Options{})
		for i := range n {
			joined(t, m, fmt.Sprint("e", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		before := s.n[callRenew].Load()
		time.Sleep(10 * time.Second)
		good := s.n[callRenew].Load() - before
		s.set(func() {
			s.renew = func(context.Context, []backend.Lease) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			s.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			s.observe = func(context.Context, []backend.Lease, string) ([]backend.Lease, string, error) {
				return nil, "", backend.ErrUnavailable
			}
			s.release = func(context.Context, []backend.Lease) error { return backend.ErrUnavailable }
		})
		before = s.n[callRenew].Load()
		time.Sleep(10 * time.Second)
		bad := s.n[callRenew].Load() - before
		if bad > 20*good {
			t.Errorf("%d elections: %d calls of Renew in 10 s when all is well, %d in 10 s when they fail", n, good, bad)
		}
		s.set(func() { s.renew, s.acquire, s.observe, s.release = nil, nil, nil, nil })
		time.Sleep(time.Minute)
		closes(t, m)
	})
}

// A holder that says it renews every nanosecond.
func TestAPlantedRenewDoesNotMakeFollowersRead(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		store := memory.New()
		raw := store.Backend()
		if a, err := raw.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: backend.Candidate{ID: "r", Nonce: backend.NewNonce()}, TTL: time.Hour, Renew: 1, Over: backend.Lease{Election: "x"}}}); err != nil || a[0].Outcome != backend.Granted {
			t.Fatal(a, err)
		}
		s := &script{Backend: polled{store.Backend()}}
		m := manage(t, s, Options{})
		joined(t, m, "x")
		time.Sleep(10 * time.Second)
		if n := s.n[callObserve].Load(); n > 250 {
			t.Errorf("%d readings in 10 s", n)
		}
		closes(t, m)
	})
}

// Live: TTL + RenewEvery + CallTimeout after the last fault has healed.
func TestTheBoundHoldsAfterADenialHasHealed(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		worst := time.Duration(0)
		for i := range 40 {
			store := memory.New()
			raw := store.Backend()
			if a, err := raw.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: backend.Candidate{ID: "dead", Nonce: backend.NewNonce()}, TTL: 10 * time.Second, Renew: 3 * time.Second, Over: backend.Lease{Election: "x"}}}); err != nil || a[0].Outcome != backend.Granted {
				t.Fatal(a, err)
			}
			s := &script{Backend: polled{store.Backend()}}
			s.observe = func(context.Context, []backend.Lease, string) ([]backend.Lease, string, error) {
				return nil, "", backend.ErrDenied
			}
			m := manage(t, s, Options{})
			e := joined(t, m, "x")
			e.Lead(nil)
			time.Sleep(time.Minute + time.Duration(i)*time.Second/4)
			s.set(func() { s.observe = nil })
			began := time.Now()
			for !e.Leading() {
				time.Sleep(10 * time.Millisecond)
			}
			worst = max(worst, time.Since(began))
			closes(t, m)
		}
		if bound := DefaultTTL + DefaultTTL/3 + DefaultTTL/4; worst > bound {
			t.Errorf("up to %v without a leader after rights were given back; the bound is %v", worst, bound)
		}
	})
}

// The last reading fails, and then this process wins all that it has joined: it reads
// nothing any more, and is unreachable for ever.
func TestWhoLeadsAllItHasJoinedIsNotUnreachableForEver(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
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
		down := func(context.Context, []backend.Lease) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
		other.set(func() {
			other.renew = down
			other.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			other.release = func(context.Context, []backend.Lease) error { return backend.ErrUnavailable }
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
func TestARunThatEndsInAQueueReturnsNilThoughAnotherBegins(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		held := backend.Lease{Election: "x", Holder: backend.Candidate{ID: "o", Nonce: "o"}, Term: 5, Beat: 1, TTL: 10 * time.Second, Watch: backend.StoreDecides}
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.observe = func(context.Context, []backend.Lease, string) ([]backend.Lease, string, error) {
			return []backend.Lease{held}, "", nil
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

// Legacy layouts have no terms: an old handle resigns the new reign.
func TestAnOldHandleDoesNotResignANewReignWithoutTerms(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := &script{Backend: memory.New().Backend()}
		var real sync.Map
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			for i := range bids {
				if v, ok := real.Load(bids[i].Election); ok {
					bids[i].Over.Term = v.(uint64)
				}
			}
			a, err := s.Backend.Acquire(ctx, bids)
			for i := range a {
				real.Store(a[i].Election, a[i].Term)
				a[i].Term = 0
			}
			return a, err
		}
		s.observe = func(ctx context.Context, seen []backend.Lease, after string) ([]backend.Lease, string, error) {
			l, next, err := s.Backend.Observe(ctx, seen, after)
			for i := range l {
				l[i].Term = 0
			}
			return l, next, err
		}
		restore := func(held []backend.Lease) (out []backend.Lease) {
			for _, l := range held {
				if v, ok := real.Load(l.Election); ok {
					l.Term = v.(uint64)
				}
				out = append(out, l)
			}
			return out
		}
		s.renew = func(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
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
			t.Error("the handle of an earlier reign has ended the present one")
		}
		closes(t, m)
	})
}

// An operator's wish that comes too late is no refusal of this candidate.
func TestAStaleNominationIsNotLoggedAsARefusal(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
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

func (asks) Ask(context.Context, []backend.Wish) error { return backend.ErrStale }

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
	inBubble(t, "", func(t *testing.T) {
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

func TestAWallClockThatWasSetBackTellsOfASuspensionAllTheSame(t *testing.T) {
	c := newClock()
	c.jumped(-int64(time.Hour))        // set back by an hour
	c.jumped(-int64(50 * time.Minute)) // and the machine was suspended for ten minutes
	if ahead := time.Duration(c.ahead.Load()); ahead != 10*time.Minute {
		t.Errorf("a holder believes that %v have passed, want 10m0s", ahead)
	}
}

// hung is a log that hangs until it is told to go on.
type hung struct {
	slog.Handler
	on   chan struct{}
	said atomic.Int64
}

func (h *hung) Enabled(context.Context, slog.Level) bool { return true }
func (h *hung) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *hung) Handle(_ context.Context, r slog.Record) error {
	<-h.on
	h.said.Add(1)
	return nil
}

// A log that hangs costs no lease, and keeps nobody leading.
func TestALogThatHangsKeepsNoLeadFunctionRunning(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		log := &hung{on: make(chan struct{})}
		s := &script{Backend: memory.New().Backend()}
		m := manage(t, s, Options{Logger: slog.New(log)})
		var ended atomic.Int64
		e := joined(t, m, "x")
		e.Lead(func(ctx context.Context, _ *Leadership) error {
			<-ctx.Done()
			ended.Add(1)
			return nil
		})
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("does not lead, since its log hangs")
		}
		s.set(func() {
			s.renew = func(context.Context, []backend.Lease) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
		})
		time.Sleep(2 * DefaultTTL)
		if ended.Load() == 0 {
			t.Error("the lease has run out, and the lead function was not told")
		}
		s.set(func() { s.renew = nil })
		for range maxLog / 2 {
			e.Resign(t.Context())
			time.Sleep(DefaultTTL)
		}
		before := log.said.Load()
		close(log.on)
		closes(t, m)
		if said := log.said.Load() - before; said < 10 || said > maxLog+20 {
			t.Errorf("%d messages came late; want the first ones, and that the others were lost", said)
		}
	})
}

func TestASuspensionThatIsFoundCancelsTheContextAtOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
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
func TestAGrantThatCameTooLateIsNoFailure(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
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
		m := manage(t, s, Options{Silence: time.Minute})
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
func TestAnAttemptWaitsForTheFirstHealthCheck(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
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

func TestWhoWasNeverWellIsNotElected(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		led := make(chan int, 9)
		m := manage(t, memory.New().Backend(), Options{Health: func(ctx context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return errors.New("sick from the start")
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
