// Package relational has what the drivers of SQL databases share: changes that each are done by themselves, many
// of them in one transaction.
package relational

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

const (
	maxChanges   = 500             // changes in one transaction
	lockPatience = 2 * time.Second // for how long a change is tried again whose row is locked by somebody else
)

// A Writing is one call of lease.Driver.Write.
type Writing struct {
	lease.Written
	Changes []lease.Change

	// Try makes changes in one transaction and sets their Results. It returns those whose rows somebody
	// else has locked.
	Try func(ctx context.Context, part []int) (busy []int, err error)

	Alone func(error) bool  // one change may have failed the others
	Soon  func(error) bool  // of one change: it may succeed if it is tried again
	Fail  func(error) error // returns an error with its class
}

// Run makes all changes.
func (w *Writing) Run(ctx context.Context) (lease.Written, error) {
	w.Results = make([]lease.Result, len(w.Changes))
	all := make([]int, len(w.Changes))
	for i := range all {
		all[i] = i
	}
	for part := range slices.Chunk(all, maxChanges) {
		switch err := w.send(ctx, part); {
		case errors.Is(err, lease.ErrEpoch):
			return lease.Written{}, err
		case err != nil:
			return lease.Written{Results: w.Results}, w.Fail(err)
		}
	}
	return w.Written, nil
}

// send makes changes in one transaction, and tries those again whose rows were locked. If the
// transaction failed because of one of them, it sends each half.
func (w *Writing) send(ctx context.Context, part []int) error {
	for began := time.Now(); ; {
		busy, err := w.Try(ctx, part)
		switch {
		case err == nil:
			part = busy
		case !w.Alone(err):
			return err
		case len(part) > 1:
			if err := w.send(ctx, part[:len(part)/2]); err != nil {
				return err
			}
			return w.send(ctx, part[len(part)/2:])
		case !w.Soon(err):
			w.Results[part[0]].Err = w.Fail(err)
			return nil
		}
		if len(part) == 0 {
			return nil
		}
		if time.Since(began) > lockPatience {
			for _, i := range part {
				w.Results[i].Err = fmt.Errorf("%w: another transaction keeps a row locked, or keeps changing it", backend.ErrUnavailable)
			}
			return nil
		}
		select {
		case <-time.After(2*time.Millisecond + rand.N(10*time.Millisecond)): // writers that lock each other out must not do so again
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Arrange returns the items of keys, in their order, from those that were found.
func Arrange(keys []lease.Key, found []lease.Item) []lease.Item {
	at, items := make(map[lease.Key]*lease.Item, len(found)), make([]lease.Item, len(keys))
	for i := range found {
		at[found[i].Key] = &found[i]
	}
	for i, k := range keys {
		if items[i].Key = k; at[k] != nil {
			items[i] = *at[k]
		}
	}
	return items
}
