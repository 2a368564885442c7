package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

func TestAContextEndsWithItsLeadership(t *testing.T) {
	for _, asked := range []string{"while it lasts", "after it was lost", "by many at once"} {
		inBubble(t, asked, func(t *testing.T) {
			m := manage(t, memory.New().Backend(), Options{})
			e := joined(t, m, "x")
			if err := e.Lead(nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			l := e.Leadership()
			var ctx context.Context
			switch asked {
			case "while it lasts":
				if ctx = l.Context(); ctx.Err() != nil {
					t.Errorf("the context of a leadership that lasts has ended: %v", context.Cause(ctx))
				}
			case "by many at once":
				got := make([]context.Context, 50)
				var all sync.WaitGroup
				for i := range got {
					all.Go(func() { got[i] = l.Context() })
				}
				all.Wait()
				for _, ctx = range got {
					if ctx != got[0] || ctx.Err() != nil {
						t.Fatalf("a leadership has several contexts, or one that has ended: %v", ctx.Err())
					}
				}
			}
			if err := e.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ctx == nil {
				ctx = l.Context()
			}
			var lost *LostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Reason != ReasonResigned || lost.Term != l.Term {
				t.Errorf("the context's cause is %v, want the end of term %d: %s", context.Cause(ctx), l.Term, ReasonResigned)
			}
			closes(t, m)
		})
	}
}

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
				t.Errorf("%d still wait, though their campaigns have been given up", len(e.waiters))
			}
			return nil
		})
		closes(t, a, b)
	})
}

// refusing is a store that refuses a candidate for good once it is told to.
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
