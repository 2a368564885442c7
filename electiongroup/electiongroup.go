// Package electiongroup runs several functions under one leadership, as
// golang.org/x/sync/errgroup runs them under one context: all are cancelled when one of
// them fails or the leadership ends, all are waited for, and the first error is returned.
//
//	err := electiongroup.Run(ctx, e, consume, produce) // each an election.LeadFunc
//
// [Run] is for a program whose work is the leader's; [Do] for one leadership that was won
// by Campaign or Try. A function that panics ends the process, as in any goroutine.
package electiongroup

import (
	"context"
	"sync"

	"github.com/go-election/go-election/election"
)

// Run is [election.Election.Run] for several functions: when this process leads it calls all
// fns at once, each in a goroutine of its own, and waits for all of them.
//
//   - One fails: the context of the others is cancelled, the lease is released in order, and
//     Run returns that error.
//   - All return nil: the work is done; the lease is released, and Run returns nil.
//   - The leadership ends first: what they return then is ignored. Run campaigns again, and
//     calls them again in the next term.
//   - ctx ends: the lease is released, and Run returns nil.
func Run(ctx context.Context, e *election.Election, fns ...election.LeadFunc) error {
	return e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		return Do(ctx, lead, fns...)
	})
}

// Do calls all fns at once under a leadership that is there already, and waits for all.
// Their context is made of ctx, which is that of the lead function or lead.Context(). It
// ends with ctx, and when one of them returns an error; the cause is that error.
//
// Do returns the first error of a function that failed before ctx ended. Else, if ctx has ended, it returns
// ctx's cause: an [election.EndError] if the leadership ended. Else all have returned nil, and so does Do,
// which is still leading. Without fns that is at once.
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
