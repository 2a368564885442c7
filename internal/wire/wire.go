// Package wire is a backend that passes calls to another one, and can lose, delay, repeat or spoil them.
// Packages conformance and electiontest put it before the stores that they test with.
package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// Wrap puts a wire before a backend. It works with every backend and in virtual time. At first it passes
// every call.
func Wrap(b backend.Backend) *Wire {
	ctx, cancel := context.WithCancel(context.Background())
	return &Wire{
		Inner: b, Began: time.Now(), ctx: ctx, cancel: cancel,
		Closed: make(chan struct{}), counts: map[string]int{},
	}
}

// A Wire is a [backend.Backend] that passes calls to another one; see [Wrap].
type Wire struct {
	Inner    backend.Backend
	Began    time.Time       // the times of calls count from here
	ctx      context.Context // of requests that are in flight after their call has failed
	cancel   context.CancelFunc
	inFlight sync.WaitGroup
	Closed   chan struct{} // closed at the end of Close
	closing  sync.Once

	mu     sync.Mutex
	decide func(Call) Fate
	cut    bool
	notify func(Call)
	counts map[string]int // calls, by method
}

// A Call is one call of a Backend, as the wire saw it. Times count from Wire.Began.
type Call struct {
	Method    string   // "Acquire", "Renew", …
	Elections []string // the elections of the batch, in order
	Terms     []uint64 // the terms in the batch; Acquire: the granted terms, 0 where none was granted
	Sent      time.Duration
	Received  time.Duration // when the caller got its answer
	Outcomes  []backend.Outcome
	Err       error
}

// Outcome returns how item i of the call has ended. A release has one outcome for all its items.
func (c Call) Outcome(i int) backend.Outcome {
	switch {
	case i < len(c.Outcomes):
		return c.Outcomes[i]
	case c.Method == "Release" && c.Err == nil:
		return backend.Granted
	}
	return backend.Unknown
}

// A Fate is what the wire does to a call. The zero Fate passes it. If the call's context
// ends before the request has arrived, the request still arrives later, unless it is
// lost. A Release with term 0 never arrives later, because it is not a single request.
type Fate struct {
	Lost       bool          // the request never arrives; the call hangs until its context ends
	Before     time.Duration // the request takes this long
	After      time.Duration // the answer takes this long
	AnswerLost bool          // the store handles the request; the call hangs until its context ends
	Again      time.Duration // if positive, the request arrives a second time, this long after the first
	Err        error         // the call fails at once and the request never arrives
	Spoil      []string      // these elections come back without an outcome; the store has handled them
}

// Decide makes the wire call f for the Fate of every call. A nil f passes every call. The
// goroutine of the call calls f, which must not wait.
func (w *Wire) Decide(f func(Call) Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide, w.cut = f, false
}

// Cut(true) loses every later request and the answers to those in flight. Cut(false)
// passes every call again. Both remove the function that [Wire.Decide] set.
func (w *Wire) Cut(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide, w.cut = nil, on
}

// Notify makes the wire call f at the end of each call, before its answer.
func (w *Wire) Notify(f func(Call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = f
}

// Count returns how many calls of these methods have begun; none: of all.
func (w *Wire) Count(methods ...string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for m, c := range w.counts {
		if len(methods) == 0 || slices.Contains(methods, m) {
			n += c
		}
	}
	return n
}

// carry handles every call: it records the call, decides its Fate, and runs do, which
// calls the inner backend. It records outcomes when the caller is certain to get them.
func carry[R any](w *Wire, ctx context.Context, c Call, do func(context.Context) (R, error)) (R, error) {
	w.mu.Lock()
	w.counts[c.Method]++
	fate, f := w.decide, Fate{Lost: w.cut}
	c.Sent = time.Since(w.Began)
	w.mu.Unlock()
	if fate != nil {
		f = fate(c)
	}
	r, err := deliver(w, ctx, f, do)
	if err == nil && w.answerIsLost(c) { // the wire was cut during the call
		var none R
		r, err = none, waitForEnd(ctx)
	}
	c.Received, c.Err = time.Since(w.Began), err
	if answers, ok := any(r).([]backend.Answer); ok {
		c.record(f, answers)
	}
	w.mu.Lock()
	ended := w.notify
	w.mu.Unlock()
	if ended != nil {
		ended(c)
	}
	return r, err
}

// carryError handles a call that returns only an error.
func (w *Wire) carryError(ctx context.Context, c Call, do func(ctx context.Context) error) error {
	_, err := carry(w, ctx, c, func(ctx context.Context) (none struct{}, err error) { return none, do(ctx) })
	return err
}

// answerIsLost reports whether the wire was cut during a call, so that its answer is
// lost. For a Listen, which waits long, the function of Decide decides again at its end.
func (w *Wire) answerIsLost(c Call) bool {
	w.mu.Lock()
	fate, cut := w.decide, w.cut
	w.mu.Unlock()
	if cut || fate == nil || c.Method != "Listen" {
		return cut
	}
	f := fate(c)
	return f.Lost || f.AnswerLost
}

type result[R any] struct {
	value R
	err   error
}

// deliver carries a request and its answer according to f.
func deliver[R any](
	w *Wire, ctx context.Context, f Fate, do func(context.Context) (R, error),
) (none R, err error) {
	switch {
	case f.Err != nil:
		return none, f.Err
	case f.Lost:
		return none, waitForEnd(ctx)
	}
	if f.Again > 0 {
		defer w.send(ctx, f.Before+f.Again, func(ctx context.Context) { do(ctx) })
	}
	if f.Before == 0 && f.After == 0 && !f.AnswerLost {
		return do(ctx)
	}
	arrived := make(chan result[R], 1)
	w.send(ctx, f.Before, func(ctx context.Context) {
		v, err := do(ctx)
		arrived <- result[R]{v, err}
	})
	select {
	case r := <-arrived:
		if f.AnswerLost {
			return none, waitForEnd(ctx)
		}
		if f.After > 0 {
			if err := sleepContext(ctx, f.After); err != nil {
				return none, err
			}
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, waitForEnd(ctx)
	}
}

// send calls do after a time, whether or not the caller still waits. Like a packet, the
// request continues without the caller: do gets another context.
func (w *Wire) send(ctx context.Context, after time.Duration, do func(context.Context)) {
	limit := time.Minute
	if by, ok := ctx.Deadline(); ok {
		limit = max(time.Until(by), time.Second)
	}
	w.inFlight.Go(func() {
		if sleepContext(w.ctx, after) != nil {
			return
		}
		own, cancel := context.WithTimeout(w.ctx, limit)
		defer cancel()
		do(own)
	})
}

// waitForEnd waits for the end of ctx.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("wire: %w: %w", backend.ErrUnavailable, context.Cause(ctx))
}

// sleepContext waits for d or the end of ctx.
func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return waitForEnd(ctx)
	}
}
