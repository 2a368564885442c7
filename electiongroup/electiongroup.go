// Package electiongroup runs several functions under one leadership, as
// golang.org/x/sync/errgroup runs them under one context. If one of them fails or the
// leadership ends, the context of all is cancelled. The group waits for all of them and
// returns the first error.
//
//	err := electiongroup.Run(ctx, e, consume, produce) // each an election.LeadFunc
//
// [Run] campaigns again after each leadership. [Do] runs the functions under one leadership
// that Campaign or Try has returned. A function that panics ends the process, as in any
// goroutine.
package electiongroup

import (
	"context"
	"sync"

	"github.com/go-election/go-election/election"
)

// Run campaigns. Each time this process is elected, Run calls all fns concurrently. Their
// context ends with the leadership, or when one of them returns an error; then Run waits
// for all of them.
//
//   - One function fails: Run releases the lease and returns the function's error.
//   - All functions return nil: Run releases the lease and returns nil.
//   - The leadership ends: Run ignores what the functions return then. It campaigns
//     again, and calls them again in the next term.
//   - ctx ends: Run releases the lease and returns nil.
//
// [election.Election.Run], by contrast, logs the error of its function and campaigns
// again. Both return an error if they cannot begin to campaign.
func Run(ctx context.Context, e *election.Election, fns ...election.LeadFunc) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	err := e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		err := Do(ctx, lead, fns...)
		if err == nil || err != context.Cause(ctx) { // the work has ended, not only the leadership
			result <- err
			stop()
		}
		return nil
	})
	select {
	case first := <-result:
		return first
	default:
		return err
	}
}

// Do calls all fns concurrently under an existing leadership and waits for all of them.
// ctx is the context of the lead function or lead.Context(). The functions' context ends
// with ctx, or when one of them returns an error, which is then the cause.
//
// Do returns the first error of a function that failed before ctx ended. Otherwise, if
// ctx has ended, it returns ctx's cause: an [election.LostError] if the leadership was
// lost. Otherwise all functions have returned nil; Do returns nil, and the leadership
// goes on. Without fns, Do does not wait.
func Do(ctx context.Context, lead *election.Leadership, fns ...election.LeadFunc) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var once sync.Once
	var first error
	for _, fn := range fns {
		all.Go(func() {
			if err := fn(inner, lead); err != nil && ctx.Err() == nil {
				once.Do(func() {
					first = err
					cancel(err)
				})
			}
		})
	}
	all.Wait()
	if first != nil {
		return first
	}
	return context.Cause(ctx)
}
