package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Trial is one run of a case on a fresh store.
type Trial struct {
	Harness
	backend.Guarantees
	Store Store

	c       Case
	tb      testing.TB
	began   time.Time
	clients []*client
	nodes   []*node
	checker *checker // nil until the first node starts

	mu   sync.Mutex
	errs []error // errors that did not end the case at once
}

func newTrial(t testing.TB, c Case, h Harness) *Trial {
	trial := &Trial{Harness: h.withDefaults(), c: c, tb: t, began: time.Now()}
	trial.Store = h.NewStore(t)
	b := trial.Store.Open(t)
	trial.Guarantees = b.Guarantees()
	for range h.repeated {
		if 2*trial.TTL <= trial.MaxTTL {
			trial.TTL *= 2
		}
	}
	if err := b.Close(); err != nil {
		trial.addError(fmt.Errorf("closing a client after reading its guarantees: %w", err))
	}
	return trial
}

// now is the time since the trial began.
func (t *Trial) now() time.Duration { return time.Since(t.began) }

// sleep lets time pass. In a bubble it takes no real time.
func (t *Trial) sleep(d time.Duration) { time.Sleep(d) }

// waitUntil waits until cond is true, and returns how long that took. It ends the case if that takes longer
// than limit.
func (t *Trial) waitUntil(limit time.Duration, what string, cond func() bool) time.Duration {
	began := time.Now()
	for !cond() {
		if waited := time.Since(began); waited > limit+t.Late {
			fail("expected within %v: %s; it did not happen in %v", limit, what, waited)
		}
		time.Sleep(max(t.TTL/2000, time.Millisecond))
	}
	return time.Since(began)
}

// waitForResult waits for a result from ch.
func (t *Trial) waitForResult(ch chan error, limit time.Duration) (err error, ok bool) {
	select {
	case err := <-ch:
		return err, true
	case <-time.After(limit + t.Late):
		return nil, false
	}
}

// scaledTime reduces the duration of a long case, which takes virtual hours, to what the harness can afford.
func (t *Trial) scaledTime(d time.Duration) time.Duration {
	switch {
	case !t.Virtual:
		return min(d, 10*t.TTL)
	case t.Short:
		return min(d, max(d/24, 30*t.TTL))
	}
	return d
}

// scaledCount reduces a number of rounds in the same way.
func (t *Trial) scaledCount(n int) int {
	if t.Short || !t.Virtual {
		return max(n/10, 10)
	}
	return n
}

// callContext bounds one call. The bound is generous, since most cases do not test how long calls take.
func (t *Trial) callContext() context.Context {
	limit := max(t.TTL, time.Minute)
	if t.Virtual {
		limit = max(t.TTL, 10*time.Second)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.tb.Cleanup(cancel)
	return ctx
}

// addError records an error that does not end the case at once.
func (t *Trial) addError(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < 10 { // the first errors show the cause
		t.errs = append(t.errs, err)
	}
}

// end closes everything and returns the recorded errors.
func (t *Trial) end() error {
	if t.checker != nil {
		t.addError(t.checker.finish())
	}
	for _, c := range t.clients {
		c.Close()
	}
	for _, n := range t.nodes {
		if t.Virtual { // the bubble must not end before them
			<-n.wire.Closed
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// inject begins or ends a fault of the store.
func (t *Trial) inject(name string, on bool, election string) {
	must(t.Store.Faults[name](on, election), "the harness's fault %s (on: %v)", name, on)
}

// failed is the panic that ends a case.
type failed struct{ error }

// require ends the case unless all errors are nil. Only the goroutine that runs the case may call it, and
// what [try] runs in another one. So may everything here that returns no error, although it may fail.
func require(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(failed{err})
	}
}

// fail ends the case.
func fail(format string, args ...any) { require(fmt.Errorf(format, args...)) }

// must ends the case if a call has failed.
func must(err error, call string, args ...any) {
	if err != nil {
		fail("%s: expected no error, got %w", fmt.Sprintf(call, args...), err)
	}
}

// violated ends the case, because the rule of safety that it tests was broken.
func (t *Trial) violated(format string, args ...any) {
	require(violation(t.c.Rule, t.c.Name, format, args...))
}

// try runs f until it returns, or until require ends it, and returns the errors of that.
func try(f func()) (err error) {
	defer func() {
		p := recover()
		if f, ok := p.(failed); ok {
			err = f.error
		} else if p != nil {
			panic(p)
		}
	}()
	f()
	return nil
}

// equal returns an error unless got equals want; the text says what that is.
func equal[V comparable](got, want V, what string, args ...any) error {
	if got != want {
		return fmt.Errorf("%s: expected %+v, got %+v", fmt.Sprintf(what, args...), format(want), format(got))
	}
	return nil
}

// format quotes text, so that invisible characters show, and shortens what is long.
func format(v any) any {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.200q", v)
	case backend.Candidate:
		return fmt.Sprintf("{ID:%.80q Nonce:%q Address:%.80q Metadata:%.80q}",
			v.ID, v.Nonce, v.Address, v.Metadata)
	}
	return v
}

// expect returns an error unless ok; the text says what was expected instead of got.
func expect(ok bool, got any, expected string, args ...any) error {
	if !ok {
		return fmt.Errorf("expected %s, got %v", fmt.Sprintf(expected, args...), format(got))
	}
	return nil
}
