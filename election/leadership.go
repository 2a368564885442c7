package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Leadership is one leadership of this process.
type Leadership struct {
	// Term is the fencing token: greater than that of every earlier leadership of the
	// election. Hand it to whatever you write to, and let that refuse a smaller
	// one than it has seen.
	Term uint64

	election  *Election
	parent    context.Context       // of its context
	lazyScope atomic.Pointer[scope] // nil: nobody has asked for its context yet
	until     atomic.Int64          // deadline on the manager's clock; 0: over
}

// A scope is the context of a leadership.
type scope struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Election returns the name of the election that is led.
func (l *Leadership) Election() string { return l.election.elec.name }

// Leading reports whether this very leadership goes on. See [Election.Leading].
func (l *Leadership) Leading() bool {
	return int64(l.election.manager.clock.latest()) < l.until.Load()
}

// Remaining returns for how long the lease can be trusted if it is never renewed
// again; 0 if the leadership is over. Start nothing that takes longer and cannot be
// cancelled.
func (l *Leadership) Remaining() time.Duration {
	return max(0, time.Duration(l.until.Load())-l.election.manager.clock.latest())
}

// Context is cancelled when the leadership ends; context.Cause gives a [*LostError]
// with the reason. Cancelling takes a moment after the process was stopped:
// Leading is right at once.
func (l *Leadership) Context() context.Context { return l.scope().Context }

// scope returns the context, and makes it if need be: who leads thousands without a
// function (Lead) asks for none of them.
func (l *Leadership) scope() *scope {
	if s := l.lazyScope.Load(); s != nil {
		return s
	}
	s := new(scope)
	s.Context, s.cancel = context.WithCancelCause(l.parent)
	if !l.lazyScope.CompareAndSwap(nil, s) {
		s.cancel(nil) // somebody else has made it
	}
	return l.lazyScope.Load()
}

// Resign says that all work of this leadership has come to an end, and releases the
// lease. What was elected by Campaign or Try must be resigned also after it was
// lost: until then this process does not bid again. Leave and Close do it too:
// stop that work first. It returns when the lease is
// released, or with ctx's error. A lead function returns instead; it gets [ErrOwnCaller].
func (l *Leadership) Resign(ctx context.Context) error {
	e := l.election
	if e.calledByOwnFunction() {
		return ErrOwnCaller
	}
	return e.await(ctx, func(done chan error) input {
		if e.leadership.Load() != l || e.elec.term != l.Term || e.idle() {
			done <- nil // over long since
			return nil
		}
		e.awaitRelease(l.Term, done, 0)
		if e.elec.work == workCaller {
			return returned{&e.elec, l.Term, ReasonResigned, nil}
		}
		return resign{&e.elec, l.Term}
	})
}

// Lead makes this process campaign in the background, and campaign again after every
// leadership, until Leave or Close. fn runs in each leadership on a goroutine of its own;
// the function of one term has returned before the next bid. Lead does not wait.
//
// When fn returns while this process leads, the lease is released, and this process bids
// again after RenewEvery. When it returned an error, the event that ends the leadership has
// it, and the pause doubles with each error in a row, up to 32 times RenewEvery. A
// leadership that lasted longer than that pause ends the row.
//
// fn may be nil, for programs that ask Leading before each piece of work; then
// there is nothing to wait for when this process steps down, and work that was
// begun may overlap with the next leader's. Check the term where it matters.
func (e *Election) Lead(fn LeadFunc) error {
	w := workFunction
	if fn == nil {
		w = workNone
	}
	_, err := e.campaign(e.manager.ctx, fn, modeAlways, w, nil)
	return err
}

// Run campaigns and calls fn when this process is elected, until fn returns by itself. Then
// Run releases the lease and returns fn's error.
//
// When the leadership ends before fn does, fn's context is cancelled; Run waits for fn,
// ignores its error, and campaigns again. When ctx ends, Run steps down in order, waits for
// fn, releases the lease and returns nil.
//
// Run also returns an error if it could not begin ([ErrCampaigning], [ErrClosed]), if the
// store will never accept this candidate, if the lease expired before its release was
// confirmed ([ErrNotReleased]), or if fn has not returned StepDownTimeout + TTL after ctx
// ended.
func (e *Election) Run(ctx context.Context, fn LeadFunc) error {
	if fn == nil {
		return fmt.Errorf("election: run: %w: no function", backend.ErrInvalid)
	}
	done := make(chan error, 1) // fn has returned by itself
	once := func(ctx context.Context, lead *Leadership) (err error) {
		defer func() { // fn may end its goroutine
			if ctx.Err() == nil {
				select {
				case done <- err:
				default: // an earlier return is being carried out
				}
			}
		}()
		return fn(ctx, lead)
	}
	// The context is not cancelled with ctx, but by stepping down, with the reason as its cause.
	refused := make(chan error, 1)
	attempt, err := e.campaign(context.WithoutCancel(ctx), once, modeAlways, workFunction, &waiter{awaits: untilRefused, done: refused})
	if err != nil {
		return err
	}
	var result error
	select {
	case result = <-done:
	case err := <-refused:
		return err
	case <-ctx.Done():
	case <-e.manager.ended:
		return ErrClosed
	}
	// The release takes no longer than the lease lasts.
	most := e.manager.opts.StepDownTimeout + e.manager.opts.TTL
	stuck := fmt.Errorf("election: run: the function has not returned within %v", most)
	stepDown, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), most, stuck)
	defer cancel()
	switch err := e.withdraw(stepDown, attempt); {
	case err == nil:
		return result
	case result == nil:
		return err
	default:
		return errors.Join(result, err)
	}
}

// Campaign campaigns until this process is elected, and returns the leadership. The
// caller ends it with [Leadership.Resign], also after it was lost. When ctx ends
// first, campaigning ends and ctx's error is returned.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeOnce)
}

// Try makes one attempt: it looks at the lease and bids if it is free now. A lease
// whose holder has gone is free when this process has watched it for its TTL, so
// join before trying. It returns [ErrNotElected] if somebody else leads, and for RenewEvery
// after a resignation of this process, which lets others have the lease. The caller ends the
// leadership with [Leadership.Resign].
func (e *Election) Try(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeTry)
}

func (e *Election) once(ctx context.Context, mode mode) (*Leadership, error) {
	elected := make(chan error, 1)
	attempt, err := e.campaign(e.manager.ctx, nil, mode, workCaller, &waiter{awaits: untilElected, done: elected})
	if err != nil {
		return nil, err
	}
	switch err := e.wait(ctx, elected); {
	case err == nil:
		return e.leadership.Load(), nil
	case ctx.Err() == nil:
		return nil, err
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.manager.opts.CallTimeout)
	defer cancel()
	e.withdraw(undo, attempt)
	return nil, context.Cause(ctx)
}

// campaign begins to campaign, with w waiting for what comes of it, if it is not nil.
// attempt is for withdraw.
func (e *Election) campaign(parent context.Context, fn LeadFunc, mode mode, work work, w *waiter) (attempt int, err error) {
	m := e.manager
	if m.opts.Observer {
		return 0, fmt.Errorf("election: campaign for %q: %w: this manager only observes", e.elec.name, backend.ErrInvalid)
	}
	started := make(chan error, 1)
	if !m.send(func(time.Duration) input {
		switch {
		case e.elec.index < 0 || e.elec.leaving:
			started <- ErrClosed
			return nil
		case e.elec.mode != modeNone || e.elec.phase == phaseLeading || e.elec.phase.draining():
			started <- fmt.Errorf("%w: %q", ErrCampaigning, e.elec.name)
			return nil
		}
		e.attempt++
		attempt = e.attempt
		e.fn, e.parent = fn, parent
		if w != nil {
			e.waiters = append(e.waiters, *w)
		}
		started <- nil
		return campaign{&e.elec, mode, work}
	}) {
		return 0, ErrClosed
	}
	err = <-started
	return attempt, err
}

// withdraw ends a campaign and its leadership, if there is one, and waits for it.
func (e *Election) withdraw(ctx context.Context, attempt int) error {
	return e.await(ctx, func(done chan error) input {
		if e.attempt != attempt {
			done <- nil // somebody else's by now
			return nil
		}
		e.resolve(untilElected, ErrNotElected) // nobody listens any more
		e.resolve(untilRefused, nil)
		e.awaitRelease(0, done, attempt)
		return withdraw{&e.elec, e.fn == nil} // without a function: elected behind our back, nobody has begun
	})
}
