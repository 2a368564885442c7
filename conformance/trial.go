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
	witness *witness
	clients []*client
	nodes   []*node
	started int           // nodes ever
	harmed  bool          // a fault was inflicted on the store
	judge   *judge        // of the nodes
	spare   time.Duration // in real time, what machine and store may be late by together; 0: what leases bear
	overran time.Duration // of that, what the case itself was late by

	mu     sync.Mutex
	broken []error // found on the side, while the case was doing something else
}

func newTrial(t testing.TB, h Harness) *Trial {
	trial := &Trial{Harness: h.withDefaults(), tb: t, began: time.Now()}
	if !h.Virtual {
		trial.witness = newWitness()
		t.Cleanup(trial.witness.end)
	}
	trial.Store = h.NewStore(t)
	b := trial.Store.Open(t)
	trial.Guarantees = b.Guarantees()
	most := cmp.Or(trial.MaxTTL, h.GreatestTTL)
	for range min(h.voids, 2) {
		if 2*trial.TTL <= most {
			trial.TTL *= 2
		}
	}
	if err := b.Close(); err != nil {
		trial.complain(fmt.Errorf("close a client that was only asked for its guarantees: %w", err))
	}
	return trial
}

// now is the time since the case began.
func (t *Trial) now() time.Duration { return time.Since(t.began) }

// sleep lets time pass. In a bubble it takes none.
func (t *Trial) sleep(d time.Duration) { time.Sleep(d) }

// until waits until cond holds, and returns an error if it does not within limit. Time
// in which the machine stood still does not count.
func (t *Trial) until(limit time.Duration, what string, cond func() bool) error {
	_, err := t.after(limit, what, cond)
	return err
}

// after is until, and tells how long it took.
func (t *Trial) after(limit time.Duration, what string, cond func() bool) (time.Duration, error) {
	began := t.moment()
	for !cond() {
		if waited := t.since(began); waited > limit+t.Late {
			return waited, fmt.Errorf("expected within %v: %s; got nothing of the kind in %v%s", limit, what, waited, t.trouble())
		}
		time.Sleep(max(t.TTL/2000, time.Millisecond))
	}
	return time.Since(began.at), nil
}

// trouble says what the store has denied to managers.
func (t *Trial) trouble() (all string) {
	for _, n := range t.nodes {
		all += n.wire.trouble(n.key)
	}
	return all
}

// within waits for a result. Time in which the machine stood still does not count.
func (t *Trial) within(ch chan error, limit time.Duration) (err error, ok bool) {
	for began := t.moment(); ; {
		select {
		case err := <-ch:
			return err, true
		case <-time.After(max(limit-t.since(began), time.Millisecond)):
			if t.since(began) >= limit {
				return nil, false
			}
		}
	}
}

// long scales a time that virtual hours are spent on to what the harness can spend.
func (t *Trial) long(d time.Duration) time.Duration {
	switch {
	case !t.Virtual:
		return min(d, 10*t.TTL)
	case t.Short:
		return min(d, max(d/24, 30*t.TTL))
	}
	return d
}

// many scales a number in the same way.
func (t *Trial) many(n int) int {
	if t.Short || !t.Virtual {
		return max(n/10, 10)
	}
	return n
}

// ctx bounds one call of the contract: generously, since how long calls take is
// not what most cases are about.
func (t *Trial) ctx() (context.Context, context.CancelFunc) {
	if t.Virtual {
		return context.WithTimeout(context.Background(), max(t.TTL, 10*time.Second))
	}
	return context.WithTimeout(context.Background(), max(t.TTL, time.Minute))
}

// complain notes something that is wrong.
func (t *Trial) complain(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.broken) < 10 { // the first ones tell
		t.broken = append(t.broken, err)
	}
}

// end closes everything and returns what was found on the side.
func (t *Trial) end() error {
	if t.judge != nil {
		t.complain(t.judge.verdict())
	}
	for _, c := range t.clients {
		c.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.broken...)
}

// fault inflicts a fault on the store.
func (t *Trial) fault(name string, on bool, election string) error {
	t.harmed = true
	if err := t.Store.Faults[name](on, election); err != nil {
		return fmt.Errorf("could not inflict %s: %w", name, err)
	}
	return nil
}

// pushed skips a case unless Listen hears of every change.
func pushed(f facts) string {
	switch {
	case !f.Push:
		return "the store does not push (Guarantees.Push)"
	case f.Poll:
		return "Listen may miss changes (Guarantees.Poll)"
	}
	return ""
}

// listens skips a case unless there is a Listen.
func listens(f facts) string {
	if !f.Push {
		return "the store does not push (Guarantees.Push)"
	}
	return ""
}

// watched skips a case unless challengers decide that a lease has run out.
func watched(f facts) string {
	if f.Expiry != backend.ByChallengers {
		return fmt.Sprintf("leases are expired by the %s (Guarantees.Expiry)", f.Expiry)
	}
	return ""
}

// lasts reports whether a lease lasts as long as its holder's process lives, even
// if it is never renewed.
func (t *Trial) lasts() bool { return t.Expiry == backend.ByKernel }

// expires skips a case about a lease that ends because it is not renewed.
func expires(f facts) string {
	if f.Expiry == backend.ByKernel {
		return "a lease lasts as long as its holder's process (Guarantees.Expiry)"
	}
	return ""
}

// over is the earliest moment at which a leadership counts as failed whose holder sent
// its last renewal at sent and has died at died.
func (t *Trial) over(sent, died time.Duration) time.Duration {
	if t.lasts() {
		return died
	}
	return sent + t.TTL
}

// exclusive skips a case if two may hold a lease.
func exclusive(f facts) string {
	if !f.Exclusive {
		return "two candidates may hold a lease (Guarantees.Exclusive)"
	}
	return ""
}

// all skips a case if one of several reasons to skip it holds.
func all(skips ...func(facts) string) func(facts) string {
	return func(f facts) string {
		for _, skip := range skips {
			if why := skip(f); why != "" {
				return why
			}
		}
		return ""
	}
}

// same returns an error unless got is what was expected.
func same[V comparable](what string, got, want V) error {
	if got != want {
		return fmt.Errorf("%s: expected %+v, got %+v", what, show(want), show(got))
	}
	return nil
}

// show quotes text, of which invisible parts matter.
func show(v any) any {
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
func must(ok bool, expected string, got any) error {
	if !ok {
		return fmt.Errorf("expected %s, got %v", expected, show(got))
	}
	return nil
}
