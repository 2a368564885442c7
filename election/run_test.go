package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// A function that returns by itself has finished: Run releases the lease, returns the function's
// error, and stops campaigning.
func TestRunReturnsItsFunctionsError(t *testing.T) {
	broken := errors.New("the printer is out of paper")
	for _, want := range []error{nil, broken} {
		synctest.Test(t, func(t *testing.T) {
			e := alone(t, memory.New().Backend(), Options{})
			runs := 0
			err := e.Run(t.Context(), func(context.Context, *Leadership) error { runs++; return want })
			r, _ := e.Record(t.Context())
			if err != want || !r.Vacant() || r.End != backend.Released {
				t.Errorf("Run of a function that returned %v returned %v, and the record is %+v", want, err, r.Lease)
			}
			time.Sleep(time.Hour)
			if runs != 1 || e.Leading() {
				t.Errorf("the function ran %d times in an hour, and its process leads: %v", runs, e.Leading())
			}
			if err := e.Run(t.Context(), func(context.Context, *Leadership) error { return nil }); err != nil {
				t.Errorf("a second Run: %v", err)
			}
		})
	}
}

// Run ignores an error that the function returns after its leadership has ended.
func TestRunCampaignsAgainAfterALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		ended := make(chan error)
		runs := 0
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ *Leadership) error {
				runs++
				<-ctx.Done()
				return errors.New("interrupted")
			})
		}()
		for range 3 {
			time.Sleep(time.Minute)
			noError(t, e.Resign(t.Context()))
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil || runs != 4 {
			t.Errorf("after three resignations and the end of its context Run returned %v after %d leaderships, want nil after 4", err, runs)
		}
		r, _ := e.Record(t.Context())
		time.Sleep(time.Hour)
		if !r.Vacant() || runs != 4 || e.Leading() {
			t.Errorf("Run has returned: the record is %+v, and an hour later there were %d leaderships, and it leads: %v", r.Lease, runs, e.Leading())
		}
	})
}

// A function that fails at once is not called again at once.
func TestCallsOfAFailingFunctionBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		calls := make(chan time.Time, 10000)
		var good atomic.Bool
		e.Lead(func(context.Context, *Leadership) error {
			if calls <- time.Now(); good.CompareAndSwap(true, false) {
				return nil
			}
			return errors.New("no route to host")
		})
		last := <-calls
		gap := func() time.Duration {
			before := last
			last = <-calls
			return last.Sub(before)
		}
		for i, want := 1, e.manager.opts.RenewEvery; i < 6; i, want = i+1, 2*want {
			if got := gap(); got < want || got > want+e.manager.opts.RenewEvery {
				t.Errorf("pause %d after an error is %v, want %v", i, got, want)
			}
		}
		for range 10 {
			if got := gap(); got > 33*e.manager.opts.RenewEvery {
				t.Errorf("the wait has grown to %v, want at most %v", got, 33*e.manager.opts.RenewEvery)
			}
		}
		good.Store(true)
		gap() // after which the function succeeds
		if got := gap(); got > 2*e.manager.opts.RenewEvery {
			t.Errorf("the wait after a function that succeeded is %v, want %v", got, e.manager.opts.RenewEvery)
		}
	})
}

// A lead function that calls Resign, Leave or Close would wait for itself.
func TestACallThatWaitsForItsCallerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e, other := joined(t, m, "x"), joined(t, m, "y")
		calls := map[string]func(*Leadership) error{
			"Election.Resign":   func(*Leadership) error { return e.Resign(t.Context()) },
			"Leadership.Resign": func(l *Leadership) error { return l.Resign(t.Context()) },
			"Leave":             func(*Leadership) error { return e.Leave(t.Context()) },
			"Close":             func(*Leadership) error { return m.Close(t.Context()) },
		}
		err := e.Run(t.Context(), func(_ context.Context, l *Leadership) error {
			for range other.Events(t.Context()) {
				break // the caller is the same afterwards
			}
			for name, call := range calls {
				if err := call(l); !errors.Is(err, ErrOwnCaller) || !errors.Is(err, backend.ErrInvalid) {
					t.Errorf("%s in its own lead function: %v, want %v", name, err, ErrOwnCaller)
				}
			}
			return other.Leave(t.Context())
		})
		if err != nil {
			t.Errorf("leaving another election in a lead function: %v", err)
		}
		told := make(chan error, 1)
		e.Watch(func(Event) { told <- m.Close(t.Context()) })
		if err := <-told; !errors.Is(err, ErrOwnCaller) {
			t.Errorf("Close in a callback: %v, want %v", err, ErrOwnCaller)
		}
	})
}

func TestEachMisuseHasItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a, b := manage(t, store.Backend(), Options{}), manage(t, store.Backend(), Options{})
		ea, eb := joined(t, a, "x"), joined(t, b, "x")
		if _, err := ea.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, err := eb.Try(t.Context()); l != nil || !errors.Is(err, ErrNotElected) {
			t.Errorf("Try while another leads: %v, %v, want %v", l, err, ErrNotElected)
		}
		if err := ea.Lead(nil); !errors.Is(err, ErrCampaigning) {
			t.Errorf("Lead of a leader: %v, want %v", err, ErrCampaigning)
		}
		if _, err := a.Join("x"); !errors.Is(err, ErrJoined) {
			t.Errorf("Join of what is joined: %v, want %v", err, ErrJoined)
		}
		closes(t, a)
		if err := ea.Lead(nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Lead after Close: %v, want %v", err, ErrClosed)
		}
	})
}
