package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A Trial is one case on one fresh store.
type Trial struct {
	Harness
	backend.Guarantees
	Store Store

	tb      testing.TB
	began   time.Time
	stalls  *stallDetector
	clients []*client
	nodes   []*node
	started int           // nodes ever
	harmed  bool          // a fault was inflicted on the store
	checker *checker      // of the nodes
	slack   time.Duration // in real time, what machine and store may be late by together; 0: what leases bear
	delayed time.Duration // of that, what the case itself was late by

	mu   sync.Mutex
	errs []error // found on the side, while the case was doing something else
}

func newTrial(t testing.TB, h Harness) *Trial {
	trial := &Trial{Harness: h.withDefaults(), tb: t, began: time.Now()}
	if !h.Virtual {
		trial.stalls = newStallDetector()
		t.Cleanup(trial.stalls.end)
	}
	trial.Store = h.NewStore(t)
	b := trial.Store.Open(t)
	trial.Guarantees = b.Guarantees()
	most := cmp.Or(trial.MaxTTL, h.GreatestTTL)
	for range min(h.voidTrials, 2) {
		if 2*trial.TTL <= most {
			trial.TTL *= 2
		}
	}
	if err := b.Close(); err != nil {
		trial.addError(fmt.Errorf("close a client that was only asked for its guarantees: %w", err))
	}
	return trial
}

// now is the time since the case began.
func (t *Trial) now() time.Duration { return time.Since(t.began) }

// sleep lets time pass. In a bubble it takes none.
func (t *Trial) sleep(d time.Duration) { time.Sleep(d) }

// until waits until cond holds, and returns an error if it does not within limit. Time
// in which the machine stood still does not count.
func (t *Trial) waitUntil(limit time.Duration, what string, cond func() bool) error {
	_, err := t.waitTime(limit, what, cond)
	return err
}

// after is until, and tells how long it took.
func (t *Trial) waitTime(limit time.Duration, what string, cond func() bool) (time.Duration, error) {
	began := t.startStopwatch()
	for !cond() {
		if waited := t.elapsed(began); waited > limit+t.Late {
			return waited, fmt.Errorf("expected within %v: %s; got nothing of the kind in %v%s", limit, what, waited, t.failedCalls())
		}
		time.Sleep(max(t.TTL/2000, time.Millisecond))
	}
	return time.Since(began.startedAt), nil
}

// trouble says what the store has denied to managers.
func (t *Trial) failedCalls() (all string) {
	for _, n := range t.nodes {
		all += n.wire.failureSummary(n.key)
	}
	return all
}

// within waits for a result. Time in which the machine stood still does not count.
func (t *Trial) waitForResult(ch chan error, limit time.Duration) (err error, ok bool) {
	for began := t.startStopwatch(); ; {
		select {
		case err := <-ch:
			return err, true
		case <-time.After(max(limit-t.elapsed(began), time.Millisecond)):
			if t.elapsed(began) >= limit {
				return nil, false
			}
		}
	}
}

// long scales a time that virtual hours are spent on to what the harness can spend.
func (t *Trial) scaledTime(d time.Duration) time.Duration {
	switch {
	case !t.Virtual:
		return min(d, 10*t.TTL)
	case t.Short:
		return min(d, max(d/24, 30*t.TTL))
	}
	return d
}

// many scales a number in the same way.
func (t *Trial) scaledCount(n int) int {
	if t.Short || !t.Virtual {
		return max(n/10, 10)
	}
	return n
}

// ctx bounds one call of the contract: generously, since how long calls take is
// not what most cases are about.
func (t *Trial) callContext() (context.Context, context.CancelFunc) {
	if t.Virtual {
		return context.WithTimeout(context.Background(), max(t.TTL, 10*time.Second))
	}
	return context.WithTimeout(context.Background(), max(t.TTL, time.Minute))
}

// complain notes something that is wrong.
func (t *Trial) addError(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < 10 { // the first ones tell
		t.errs = append(t.errs, err)
	}
}

// end closes everything and returns what was found on the side.
func (t *Trial) end() error {
	if t.checker != nil {
		t.addError(t.checker.finish())
	}
	for _, c := range t.clients {
		c.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// fault inflicts a fault on the store.
func (t *Trial) inject(name string, on bool, election string) error {
	t.harmed = true
	if err := t.Store.Faults[name](on, election); err != nil {
		return fmt.Errorf("could not inflict %s: %w", name, err)
	}
	return nil
}

// lasts reports whether a lease lasts as long as its holder's process lives, even
// if it is never renewed.
func (t *Trial) lastsWithProcess() bool { return t.Expiry == backend.ByKernel }

// over is the earliest moment at which a leadership counts as failed whose holder sent
// its last renewal at sent and has died at died.
func (t *Trial) failedAt(sent, died time.Duration) time.Duration {
	if t.lastsWithProcess() {
		return died
	}
	return sent + t.TTL
}

// same returns an error unless got is what was expected.
func equal[V comparable](what string, got, want V) error {
	if got != want {
		return fmt.Errorf("%s: expected %+v, got %+v", what, format(want), format(got))
	}
	return nil
}

// show quotes text, of which invisible parts matter.
func format(v any) any {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.200q", v)
	case *election.Election: // not by reflection: it is in use
		if v == nil {
			return "no election"
		}
		return fmt.Sprintf("election %q: %v", v.Name(), v.Current())
	case *election.Leadership:
		if v == nil {
			return "no leadership"
		}
		return fmt.Sprintf("leadership of %q in term %d", v.Election(), v.Term)
	case backend.Candidate:
		return fmt.Sprintf("{ID:%.80q Nonce:%q Address:%.80q Metadata:%.80q}", v.ID, v.Nonce, v.Address, v.Metadata)
	}
	return v
}

// must returns an error unless ok, with what was expected and got.
func expect(ok bool, expected string, got any) error {
	if !ok {
		return fmt.Errorf("expected %s, got %v", expected, format(got))
	}
	return nil
}
