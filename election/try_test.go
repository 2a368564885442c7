package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func TestTryIgnoresAReadFromBeforeIt(t *testing.T) {
	inBubble(t, "a lease that was released while it was being read", func(t *testing.T) {
		store := memory.New()
		slow := &script{Backend: store.Backend()}
		slow.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			defer time.Sleep(time.Second)
			return slow.Backend.Observe(ctx, seen)
		}
		l, err := alone(t, store.Backend(), Options{}).Campaign(t.Context())
		noError(t, err)
		e := alone(t, slow, Options{}) // its first reading is under way, and will show that another leads
		time.Sleep(time.Second / 2)
		noError(t, l.Resign(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if l, err := e.Try(ctx); err != nil || l == nil {
			t.Errorf("Try for a free lease returned %v, %v", l, err)
		}
	})
}

func TestTryDoesNotWaitForARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted()
		e := alone(t, s, Options{})
		l, err := e.Try(t.Context())
		noError(t, err)
		s.fail(backend.ErrDenied, callRelease)
		ctx, cancel := soon()
		defer cancel()
		l.Resign(ctx)
		ctx, cancel = soon()
		defer cancel()
		if _, err := e.Try(ctx); !errors.Is(err, ErrNotElected) {
			t.Errorf("Try while the lease cannot be released: %v, want %v", err, ErrNotElected)
		}
	})
}

// Try waits for the first health check before it bids.
func TestTryWaitsForTheFirstHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{Health: func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}})
		if l, err := e.Try(t.Context()); err != nil || l == nil {
			t.Fatalf("Try without a competitor returned %v, %v", l, err)
		}
	})
}
