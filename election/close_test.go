package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// If the store is unreachable, Close, Run and Resign wait no longer than the lease lasts: after that
// a release has no effect. The test tries each way in which a store can be unreachable.
func TestCloseWaitsNoLongerThanTheLease(t *testing.T) {
	for name, away := range map[string]conformance.Fate{
		"nothing is answered": {Lost: true},
		"each call fails":     {Err: backend.ErrUnavailable},
		"each call is denied": {Err: backend.ErrDenied},
	} {
		bubble(t, "Close, "+name, func(t *testing.T) {
			m, e, cut := leads(t, away)
			began := cut()
			err := m.Close(context.Background())
			endsWithTheLease(t, began)
			if !errors.Is(err, election.ErrNotReleased) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("Close: %v, want ErrNotReleased and the election's name", err)
			}
			if e.Leading() {
				t.Error("it leads after Close")
			}
		})
		bubble(t, "Run, "+name, func(t *testing.T) {
			m, e, wire := joins(t)
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() {
				ran <- e.Run(ctx, func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil })
			}()
			time.Sleep(time.Second)
			wire.Decide(func(conformance.Call) conformance.Fate { return away })
			began := time.Now()
			cancel()
			err := <-ran
			endsWithTheLease(t, began)
			if !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Run: %v, want ErrNotReleased", err)
			}
			m.Close(context.Background())
		})
		bubble(t, "Resign, "+name, func(t *testing.T) {
			m, e, cut := leads(t, away)
			began := cut()
			err := e.Resign(context.Background())
			endsWithTheLease(t, began)
			if !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Resign: %v, want ErrNotReleased", err)
			}
			m.Close(context.Background())
		})
	}
}

// The same holds for a candidate that does not know whether its bid was granted.
func TestCloseEndsACandidateWithAnUnansweredBid(t *testing.T) {
	bubble(t, "Close", func(t *testing.T) {
		m, e, wire := joins(t)
		wire.Decide(func(c conformance.Call) conformance.Fate {
			return conformance.Fate{Lost: c.Method == "Acquire" || c.Method == "Release"}
		})
		e.Lead(nil)
		time.Sleep(time.Second)
		began := time.Now()
		if err := m.Close(context.Background()); err != nil && !errors.Is(err, election.ErrNotReleased) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > 2*election.DefaultTTL {
			t.Errorf("Close took %v", took)
		}
	})
}

// A follower has nothing in the store, so Close does not wait for a reading that hangs.
func TestCloseOfAFollowerDoesNotWaitForAReading(t *testing.T) {
	bubble(t, "Close", func(t *testing.T) {
		m, e, wire := joins(t)
		e.Lead(nil)
		time.Sleep(time.Second)
		if _, err := m.Join("y"); err != nil {
			t.Fatal(err)
		}
		wire.Decide(func(c conformance.Call) conformance.Fate { return conformance.Fate{Lost: c.Method == "Observe"} })
		time.Sleep(election.DefaultTTL/2 + time.Second) // by now a reading is under way
		began := time.Now()
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}

// leads returns a manager that leads "x", and a function that makes its store unreachable.
func leads(t *testing.T, away conformance.Fate) (m *election.Manager, e *election.Election, cut func() time.Time) {
	t.Helper()
	m, e, wire := joins(t)
	e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil })
	time.Sleep(time.Second)
	if !e.Leading() {
		t.Fatal("it does not lead")
	}
	return m, e, func() time.Time {
		wire.Decide(func(conformance.Call) conformance.Fate { return away })
		return time.Now()
	}
}

func endsWithTheLease(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > election.DefaultTTL {
		t.Errorf("it took %v, longer than the lease of %v lasts", took, election.DefaultTTL)
	}
}

// joins returns a manager that has joined "x", and the wire to its store.
func joins(t *testing.T) (*election.Manager, *election.Election, *conformance.Wire) {
	t.Helper()
	wire := conformance.Wrap(memory.New().Backend())
	m, err := election.New(wire, election.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Join("x")
	if err != nil {
		t.Fatal(err)
	}
	return m, e, wire
}

// bubble runs f in virtual time; a goroutine that it leaves running fails the test.
func bubble(t *testing.T, what string, f func(t *testing.T)) {
	t.Run(what, func(t *testing.T) { synctest.Test(t, f) })
}
