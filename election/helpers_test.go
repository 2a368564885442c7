package election

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

func manage(t *testing.T, b backend.Backend, o Options) *Manager {
	t.Helper()
	m, err := New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func joined(t *testing.T, m *Manager, name string) *Election {
	t.Helper()
	e, err := m.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// inBubble runs f in virtual time; a goroutine that it leaves running fails the test.
func inBubble(t *testing.T, what string, f func(t *testing.T)) {
	t.Run(what, func(t *testing.T) { synctest.Test(t, f) })
}

func closes(t *testing.T, managers ...*Manager) {
	t.Helper()
	for _, m := range managers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Second)
}

// script is a store with functions that replace some of its calls. Each call takes lag, apart from
// Listen.
type script struct {
	backend.Backend
	lag      time.Duration
	acquire  func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error)
	renew    func(ctx context.Context, held []backend.Held) ([]backend.Answer, error)
	release  func(ctx context.Context, held []backend.Held) error
	observe  func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error)
	announce func(ctx context.Context, m backend.Member) error
	listen   func(ctx context.Context, seen []backend.Lease) error
	promises func(*backend.Guarantees)
	n        [callKinds]atomic.Int64
	mu       sync.RWMutex
}

// set changes the functions.
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

func (s *script) Announce(ctx context.Context, m backend.Member) error {
	if f := of(s, &s.announce); f != nil {
		return f(ctx, m)
	}
	return s.Backend.Announce(ctx, m)
}

func (s *script) Listen(ctx context.Context, seen []backend.Lease) error {
	s.n[callListen].Add(1)
	if f := of(s, &s.listen); f != nil {
		return f(ctx, seen)
	}
	return s.Backend.Listen(ctx, seen)
}

// polled is a store that must be polled: it does not push changes.
type polled struct{ backend.Backend }

func (p polled) Guarantees() backend.Guarantees {
	g := p.Backend.Guarantees()
	g.Push, g.Poll = false, true
	return g
}

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
