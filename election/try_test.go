package election

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// slowReads is a store whose readings take a second.
type slowReads struct{ backend.Backend }

func (s slowReads) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = s.Backend.Observe(ctx, seen)
	time.Sleep(time.Second)
	return changed, err
}

func TestTryIgnoresAReadFromBeforeIt(t *testing.T) {
	inBubble(t, "a lease that was released while it was being read", func(t *testing.T) {
		store := memory.New()
		a, b := manage(t, store.Backend(), Options{}), manage(t, slowReads{store.Backend()}, Options{})
		l, err := joined(t, a, "x").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := joined(t, b, "x") // its first reading is under way, and will show that a leads
		time.Sleep(time.Second / 2)
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if l, err := e.Try(ctx); err != nil || l == nil {
			t.Errorf("Try for a free lease returned %v, %v", l, err)
		}
		closes(t, a, b)
	})
}

// Try waits for the first health check before it bids.
func TestTryWaitsForTheFirstHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{Health: func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}})
		l, err := joined(t, m, "x").Try(t.Context())
		if err != nil || l == nil {
			t.Fatalf("Try without a competitor returned %v, %v", l, err)
		}
		l.Resign(t.Context())
		closes(t, m)
	})
}
