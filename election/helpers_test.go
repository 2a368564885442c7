package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// manage starts a manager, and closes it at the end of the test.
func manage(t *testing.T, b backend.Backend, o Options) *Manager {
	t.Helper()
	m, err := New(b, o)
	noError(t, err)
	t.Cleanup(func() { closes(t, m) })
	return m
}

func joined(t *testing.T, m *Manager, name string) *Election {
	t.Helper()
	e, err := m.Join(name)
	noError(t, err)
	return e
}

// inBubble runs f in virtual time; a goroutine that it leaves running fails the test.
func inBubble(t *testing.T, what string, f func(t *testing.T)) {
	t.Run(what, func(t *testing.T) { synctest.Test(t, f) })
}

// alone starts a manager, and joins the election "x".
func alone(t *testing.T, b backend.Backend, o Options) *Election {
	t.Helper()
	return joined(t, manage(t, b, o), "x")
}

func untilItEnds(ctx context.Context, _ *Leadership) error {
	<-ctx.Done()
	return nil
}

// closes closes a manager, unless the test has done so.
func closes(t *testing.T, m *Manager) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := m.Close(ctx); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Second)
}

// script is a store whose calls can be made to fail, or be replaced. Each call takes lag, apart from Listen.
type script struct {
	backend.Backend
	lag time.Duration
	n   [callKinds]atomic.Int64 // calls so far

	mu      sync.RWMutex
	err     error      // of calls of these kinds
	kinds   []callKind // empty: all
	acquire func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error)
	release func(ctx context.Context, held []backend.Held) error
	observe func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error)
	listen  func(ctx context.Context, seen []backend.Lease) error
}

func scripted() *script { return &script{Backend: memory.New().Backend()} }

// errLost is the error of a call that is not answered, and errStuck of one that does not even end with its context.
var errLost, errStuck = errors.New("lost"), errors.New("stuck")

// writes are the kinds of calls that write.
var writes = []callKind{callAcquire, callRenew, callRelease, callAnnounce}

// fail makes calls of these kinds fail; all, if none is given.
func (s *script) fail(err error, kinds ...callKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.kinds = err, kinds
}

func (s *script) heal() { s.fail(nil) }

// begin counts a call, and returns the error with which it fails.
func (s *script) begin(ctx context.Context, k callKind) error {
	s.n[k].Add(1)
	if k != callListen {
		time.Sleep(s.lag)
	}

	s.mu.RLock()
	err := s.err
	if len(s.kinds) > 0 && !slices.Contains(s.kinds, k) {
		err = nil
	}
	s.mu.RUnlock()
	if err == errStuck {
		time.Sleep(100 * time.Millisecond)
		return s.begin(ctx, k)
	}
	if err == errLost {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, ctx.Err())
	}
	return err
}

func (s *script) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := s.begin(ctx, callAcquire); err != nil {
		return nil, err
	}
	if s.acquire != nil {
		return s.acquire(ctx, bids)
	}
	return s.Backend.Acquire(ctx, bids)
}

func (s *script) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := s.begin(ctx, callRenew); err != nil {
		return nil, err
	}
	return s.Backend.Renew(ctx, held)
}

func (s *script) Release(ctx context.Context, held []backend.Held) error {
	if err := s.begin(ctx, callRelease); err != nil {
		return err
	}
	if s.release != nil {
		return s.release(ctx, held)
	}
	return s.Backend.Release(ctx, held)
}

func (s *script) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := s.begin(ctx, callObserve); err != nil {
		return nil, err
	}
	if s.observe != nil {
		return s.observe(ctx, seen)
	}
	return s.Backend.Observe(ctx, seen)
}

func (s *script) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := s.begin(ctx, callListen); err != nil {
		return err
	}
	if s.listen != nil {
		return s.listen(ctx, seen)
	}
	return s.Backend.Listen(ctx, seen)
}

func (s *script) Request(ctx context.Context, requests []backend.Request) error {
	if err := s.begin(ctx, callRequest); err != nil {
		return err
	}
	return s.Backend.Request(ctx, requests)
}

func (s *script) Announce(ctx context.Context, m backend.Member) error {
	if err := s.begin(ctx, callAnnounce); err != nil {
		return err
	}
	return s.Backend.Announce(ctx, m)
}

func (s *script) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := s.begin(ctx, callMembers); err != nil {
		return nil, err
	}
	return s.Backend.Members(ctx, from, limit)
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
