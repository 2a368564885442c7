package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/internal/client"
)

// Prepare implements [backend.Preparer]: writers race on a scratch object. It costs about twenty requests.
func (b *Backend) Prepare(ctx context.Context) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	won, err := b.scratch.race(ctx, int(b.won.Load())) // a slow store needs more than one call
	if b.won.Store(int32(won)); err != nil {
		return fmt.Errorf("s3: prepare: %w", err)
	}
	return nil
}

// Inspect implements [backend.Inspector]: it says how large the object is, and has writers race.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	began := time.Now()
	value, _, err := b.leases.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("s3: inspect: %w", err)
	}
	took := time.Since(began).Round(time.Millisecond)
	object := clean.Diagnosticf(took > ttl/10 || len(value) > limits.MaxBytes/2, "object",
		"it has %d of %d bytes; reading it took %v", len(value), limits.MaxBytes, took)

	text := fmt.Sprintf("of %d writers over one version one has won, %d times", racers, races)
	if _, err = b.scratch.race(ctx, 0); err != nil {
		text = err.Error()
	}
	conditions := clean.Diagnosticf(err != nil, "conditions", "%s", text)
	conditions.Fatal = errors.Is(err, backend.ErrDenied)
	list := []backend.Diagnostic{object, conditions}
	if err == nil { // no object has this version, so nothing is written; some stores break off large requests
		_, err = b.scratch.Swap(ctx, noVersion, make([]byte, limits.MaxBytes))
		if errors.Is(err, backend.ErrDenied) {
			list = append(list, clean.Diagnosticf(true, "size", "%v", err))
		}
	}
	return list, nil
}

const (
	noVersion = `"00000000000000000000000000000000"`
	races     = 4
	racers    = 2 // some stores answer those who lose one after another, in seconds
)

var errIgnored = fmt.Errorf("%w: the store, or a proxy before it, ignores the conditions of writes: two"+
	" processes could lead. Use another store, or let If-Match and If-None-Match pass", backend.ErrDenied)

// race lets writers race, over a version that all of them have read, and refuses a store in which more than
// one wins. It goes on after won races, and returns how many there are then. Processes that start at the same
// time race on the same object. Then nobody may win here, which proves nothing, and is tried again.
func (o *object) race(ctx context.Context, won int) (int, error) {
	before := "?"
	for tries := 0; won < races; tries++ {
		if tries == 10*races {
			return won, fmt.Errorf("%w: nobody has won %d races over %q: many processes start at once, or"+
				" the store denies conditional writes", backend.ErrUnavailable, tries, o.key)
		}
		_, version, err := o.Get(ctx)
		if err != nil {
			return won, err
		}
		if version == before {
			return won, fmt.Errorf("%w: a cache answers for the store: let requests pass", backend.ErrDenied)
		}
		wins, err := o.write(ctx, version, racers)
		switch {
		case err != nil:
			return won, err
		case wins > 1:
			return 0, errIgnored
		case wins == 1:
			before = version
		}
		won += wins
		// None of these is the version then, whoever has won.
		for _, gone := range []string{version, "", noVersion} {
			if wins, err := o.write(ctx, gone, 1); wins == 1 && won > 0 {
				return 0, errIgnored
			} else if err != nil {
				return won, err
			}
		}
	}
	return won, nil
}

// write lets n writers swap over a version at once, and returns how many have won. A store may allow few
// writes of one object a second: a writer that it puts off tries again.
func (o *object) write(ctx context.Context, version string, n int) (int, error) {
	var wins atomic.Int32
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			for range 3 {
				_, err := o.Swap(ctx, version, []byte("race "+string(backend.NewNonce())))
				if err == nil {
					wins.Add(1)
				} else if errors.Is(err, register.ErrChanged) {
					err = nil
				}
				if errs[i] = err; !errors.Is(err, backend.ErrUnavailable) {
					return
				}
				if !client.Pause(ctx, rand.N(time.Second)) {
					return
				}
			}
		})
	}
	all.Wait()
	return int(wins.Load()), errors.Join(errs...)
}
