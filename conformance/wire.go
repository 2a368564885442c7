package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// Wrap returns b with a wire in front of it: it notes every call, and can lose,
// delay, double or spoil it. It works on every backend and in virtual time.
// Until it is told otherwise it passes everything.
func Wrap(b backend.Backend) *Wire {
	ctx, cancel := context.WithCancel(context.Background())
	return &Wire{inner: b, began: time.Now(), ctx: ctx, cancel: cancel, counts: map[string]int{}, failed: map[string]int{}}
}

// A Wire is what [Wrap] returns.
type Wire struct {
	inner    backend.Backend
	began    time.Time
	ctx      context.Context // of requests that are still on their way after their call has failed
	cancel   context.CancelFunc
	inFlight sync.WaitGroup

	mu         sync.Mutex
	decide     func(Call) Fate
	cut        bool
	notify     func(Call)
	edit       func(backend.Lease) backend.Lease
	originals  map[backend.Lease]backend.Lease // by edited lease
	counts     map[string]int
	failed     map[string]int // of those, with an error
	lastFailed Call           // of those
	slowest    time.Duration  // the longest time that the inner backend took for a call
	gaveUp     bool           // it gave a call up, as there was no time left
	log        []Call
	keepLog    bool
	nonce      string
}

// A Call is one call of a Backend, as the wire saw it. Times count from when the
// wire was made.
type Call struct {
	Method    string   // "Acquire", "Renew", …
	Elections []string // that it is about, in order
	Terms     []uint64 // Renew, Release, Ask: of the request
	Sent      time.Duration
	Received  time.Duration // when the caller had its answer
	Outcomes  []backend.Outcome
	Granted   []backend.Lease // Acquire: the leases of the bids that were granted
	Err       error
}

// A Fate is what the wire does to a call. The zero Fate passes it. A request that
// the store has not got when the call's context ends goes on and arrives late,
// unless it is lost. (A Release with term 0 is not a single request; it does not
// arrive late.)
type Fate struct {
	Lost       bool          // the request never arrives; the call hangs until its context ends
	Before     time.Duration // the request takes this long
	After      time.Duration // the answer takes this long
	AnswerLost bool          // the store does it; the call hangs until its context ends
	Again      time.Duration // if positive, the request arrives a second time, this long after the first
	Err        error         // the call fails at once and nothing arrives
	Spoil      []string      // elections whose items come back without an outcome, though the store has done them
}

// Decide makes the wire ask f about every call. nil: pass everything. f is called
// by the goroutine of the call and must not wait.
func (w *Wire) Decide(f func(Call) Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide, w.cut = f, false
}

// Cut loses every request from now on, and the answers to those that are under
// way, or passes everything again. Either way, what [Wire.Decide] set is over.
func (w *Wire) Cut(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide, w.cut = nil, on
}

// Edit makes the wire show f's version of every lease that Observe returns: what
// a restored store would show. nil: the truth.
func (w *Wire) Edit(f func(backend.Lease) backend.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.edit, w.originals = f, map[backend.Lease]backend.Lease{}
}

// edited shows the caller another version of leases.
func (w *Wire) applyEdit(leases []backend.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range leases {
		if w.edit != nil {
			leases[i] = w.edit(l)
			w.originals[withoutAge(leases[i])] = l
		}
	}
}

// unedited is the opposite, so that the store is asked about what it has said.
func (w *Wire) undoEdit(leases []backend.Lease) []backend.Lease {
	leases = slices.Clone(leases)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range leases {
		if told, ok := w.originals[withoutAge(l)]; ok && w.edit != nil {
			leases[i] = told
		}
	}
	return leases
}

// bare is a lease without what passes by itself.
func withoutAge(l backend.Lease) backend.Lease {
	l.Age = 0
	return l
}

// Notify makes the wire call f at the end of every call, before the caller has
// its answer.
func (w *Wire) Notify(f func(Call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = f
}

// Keep makes the wire keep all calls for [Wire.Log], or drop them.
func (w *Wire) Keep(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepLog, w.log = on, nil
}

// Log returns the calls kept, in the order in which they ended.
func (w *Wire) Log() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// Count returns how many calls of these methods were begun, or of all methods.
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

// Nonce returns the nonce of the candidate that calls through the wire, or "" if
// it has not yet said it.
func (w *Wire) Nonce() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nonce
}

// Now returns the time on the wire's clock.
func (w *Wire) Now() time.Duration { return time.Since(w.began) }

// carry is the way of every call: it notes it, asks for its fate, and has do
// called for the inner backend. do must not touch the caller's results; it
// returns what to assign and note once it is certain that the caller waits.
func carry[R any](w *Wire, ctx context.Context, c Call, do func(ctx context.Context) (R, error), note func(*Call, Fate, R)) (R, error) {
	w.mu.Lock()
	w.counts[c.Method]++
	fate, f := w.decide, Fate{Lost: w.cut}
	c.Sent = w.Now()
	w.mu.Unlock()
	if fate != nil {
		f = fate(c)
	}
	r, err := deliver(w, ctx, f, func(ctx context.Context) (R, error) {
		began := time.Now()
		r, err := do(ctx)
		w.recordDuration(c.Method, time.Since(began), err)
		return r, err
	})
	if err == nil && w.answerIsLost(c) { // the line was cut while it waited
		var none R
		r, err = none, waitForEnd(ctx)
	}
	c.Received, c.Err = w.Now(), err
	if note != nil {
		note(&c, f, r)
	}
	w.mu.Lock()
	ended := w.notify
	if err != nil {
		w.failed[c.Method]++
		w.lastFailed = c
	}
	if w.keepLog {
		w.log = append(w.log, c)
	}
	w.mu.Unlock()
	if ended != nil {
		ended(c)
	}
	return r, err
}

// took notes how long the inner backend took for a call. A Listen is to take long, and
// what is cut off may have been killed.
func (w *Wire) recordDuration(method string, d time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if method != "Listen" && !w.cut {
		w.slowest = max(w.slowest, d)
		w.gaveUp = w.gaveUp || errors.Is(err, context.DeadlineExceeded)
	}
}

// slowestCall returns how long the slowest call took: at least limit if one was given
// up, which who asks more than one server does earlier, so that there is time left to undo.
func (w *Wire) slowestCall(limit time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gaveUp {
		return max(w.slowest, limit)
	}
	return w.slowest
}

// trouble says how many calls of whose have failed, and how the last of them did.
func (w *Wire) failureSummary(whose string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed, all := 0, 0
	for method, n := range w.counts {
		failed, all = failed+w.failed[method], all+n
	}
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("; of %d calls of %s %d failed, the last, %s %q, from %v to %v: %v",
		all, whose, failed, w.lastFailed.Method, w.lastFailed.Elections, w.lastFailed.Sent, w.lastFailed.Received, w.lastFailed.Err)
}

// severed reports whether the answer to a call is lost, since the line was cut
// meanwhile. Of a Listen, which waits for long, fate decides again at its end.
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

// deliver carries a request and its answer according to its fate.
func deliver[R any](w *Wire, ctx context.Context, f Fate, do func(context.Context) (R, error)) (none R, err error) {
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

// send has do called after a time, whether or not the caller still waits. The
// request goes on with a context of its own, as a packet does.
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

// hang waits for the end of ctx.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("wire: %w: %w", backend.ErrUnavailable, context.Cause(ctx))
}

// pause waits for d or the end of ctx.
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
