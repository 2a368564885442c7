package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/single"
)

// A Backend keeps leases in the store of a [Driver]. It implements [backend.Backend] and
// [backend.Marker]. It serves one manager.
type Backend struct {
	driver Driver
	keeper Keeper // the driver, if it is one
	limits Limits
	owner  single.Owner

	sessionMutex chan struct{} // held while the session is written, so that heartbeats are written in order

	mu         sync.Mutex
	session    *session              // nil: none
	held       map[string]*grant     // elections that this process may hold; nil: the grant was not confirmed
	known      map[string]remembered // elections that this process has read or was granted
	forgetAt   int                   // at so many elections and cached items, those of the past are forgotten
	longestTTL time.Duration         // the greatest TTL that was granted, as far as this process knows
	epoch      string                // the last that this process has read
	replaced   int                   // how often another store has answered than before
	replacedAt time.Time             // when one did so last, by the driver's clock
	cache      cache
	ages       Ages // of members
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
)

// New returns a Backend for one manager. It takes over the driver, which Close closes.
func New(d Driver) *Backend {
	limits := d.Limits()
	limits.MaxValue = min(limits.MaxValue, MaxValue)
	if limits.Now == nil {
		limits.Now = time.Now
	}
	b := &Backend{
		driver: d, limits: limits, sessionMutex: make(chan struct{}, 1),
		held: map[string]*grant{}, known: map[string]remembered{},
	}
	b.keeper, _ = d.(Keeper)
	b.cache.clear()
	return b
}

// Format prints only the name of the type, also of those that embed this one: fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, b.limits.Name+".Backend") }

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees {
	_, push := b.driver.(Listener)
	return backend.Guarantees{
		Name: b.limits.Name, MinTTL: b.limits.MinTTL, MaxTTL: b.limits.MaxTTL, Expiry: backend.ByChallengers,
		Push: push, Poll: true, // Listen returns for changes of records, not for renewals
		Exclusive: true, DurableTerms: true,
	}
}

// closeLimit bounds the calls to the store that Close makes.
const closeLimit = 500 * time.Millisecond

// Close deletes the session. If leases may be held it stays, so that no challenger begins its watch anew.
// Then Close closes the driver.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	b.leave(ctx) // if it fails, the store deletes the session later
	if err := b.driver.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return b.fail("close", err)
	}
	return nil
}

// Enter begins a call for the candidate with this nonce, or for none (""). Methods that a driver's
// package adds, such as Preflight, call it, too.
func (b *Backend) Enter(nonce backend.Nonce) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("%s: %w", b.limits.Name, err)
	}
	return nil
}

// fail wraps err, which is classed, for the caller.
func (b *Backend) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, backend.Class(err)) { // of no class, such as a context's
		return fmt.Errorf("%s: %s: %w: %w", b.limits.Name, what, backend.Class(err), err)
	}
	return fmt.Errorf("%s: %s: %w", b.limits.Name, what, err)
}

// setErrors sets err in the answers that have no outcome.
func setErrors(answers []backend.Answer, err error) {
	for i := range answers {
		if answers[i].Outcome == backend.Unknown && answers[i].Err == nil {
			answers[i].Err = err
		}
	}
}

// rounds is how often a call tries again when its conditions do not hold.
const rounds = 10

// errBusy is the error of a call after so many rounds.
var errBusy = fmt.Errorf("%w: other processes kept changing the same items", backend.ErrUnavailable)

// change reads the elections of items, unless states has them, writes the changes of plan, of which
// number n is for the items of[n], and calls done for the items of each that was granted. It does so again
// with the items of those that were refused.
func change[T any](ctx context.Context, b *Backend, items []T, v *view, states []state, name func(T) string,
	plan func(*view, []state, []T) (changes []Change, of [][]T), done func(T)) error {
	for range rounds {
		if states == nil {
			var err error
			if v, states, err = b.read(ctx, namesOf(items, name)); err != nil {
				return err
			}
		}
		changes, of := plan(v, states, items)
		if changes == nil {
			return nil
		}

		w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
		states, items = nil, nil
		var failed []error
		for n, part := range of {
			switch r := w.result(n); {
			case r.Outcome == backend.Granted:
				for _, item := range part {
					done(item)
				}
			case r.Outcome == backend.Refused, errors.Is(errors.Join(err, r.Err), ErrEpoch):
				items = append(items, part...)
			case err == nil:
				failed = append(failed, r.Err)
			}
		}
		if errors.Is(err, ErrEpoch) {
			err = nil
		}
		if err = backend.Join(append(failed, err)...); err != nil || items == nil {
			return err
		}
	}
	return errBusy
}
