package election

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// slowEyes is a store whose readings are under way for a second.
type slowEyes struct{ backend.Backend }

func (s slowEyes) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = s.Backend.Observe(ctx, seen)
	time.Sleep(time.Second)
	return changed, err
}

func TestTryIgnoresAReadFromBeforeIt(t *testing.T) {
	inBubble(t, "a lease that was released while it was being read", func(t *testing.T) {
		store := memory.New()
		a, b := manage(t, store.Backend(), Options{}), manage(t, slowEyes{store.Backend()}, Options{})
		l, err := joined(t, a, "x").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := joined(t, b, "x") // its first reading is under way now, and says that a leads
		time.Sleep(time.Second / 2)
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if l, err := e.Try(ctx); err != nil || l == nil {
			t.Errorf("expected an attempt at a free lease to win, got %v, %v", l, err)
		}
		closes(t, a, b)
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
