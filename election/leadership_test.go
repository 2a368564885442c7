package election

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/backend/memory"
)

// The context of a leadership is created when Context is first called: during the leadership, after
// it, or by many goroutines at once.
func TestAContextEndsWithItsLeadership(t *testing.T) {
	for _, asked := range []string{"while it lasts", "after it was lost", "by many at once"} {
		inBubble(t, asked, func(t *testing.T) {
			e := alone(t, memory.New().Backend(), Options{})
			noError(t, e.Lead(nil))
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
			noError(t, e.Resign(t.Context()))
			if ctx == nil {
				ctx = l.Context()
			}
			var end *EndError
			if !errors.As(context.Cause(ctx), &end) || end.Reason != ReasonResigned || end.Term != l.Term {
				t.Errorf("the context's cause is %v, want the end of term %d: %s", context.Cause(ctx), l.Term, ReasonResigned)
			}
		})
	}
}

// After the machine was stopped, a program may ask before the manager's loop has run.
func TestCurrentSaysThatTheDeadlineHasPassedBeforeTheLoopDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		noError(t, e.Lead(nil))
		synctest.Wait()
		led := e.Current()
		e.Leadership().until.Store(0)
		if ev := e.Current(); ev.Kind != Vacant || ev.Leading || ev.Reason != ReasonDeadline || ev.Previous.ID != led.Leader.ID || ev.Term != led.Term {
			t.Errorf("after the deadline of %v: %+v, want vacant for %q", led, ev, ReasonDeadline)
		}
	})
}
