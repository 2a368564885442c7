package election

import (
	"context"
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

	election *Election
	parent   context.Context       // of its context
	made     atomic.Pointer[scope] // nil: nobody has asked for its context yet
	until    atomic.Int64          // deadline on the manager's clock; 0: over
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
	if s := l.made.Load(); s != nil {
		return s
	}
	s := new(scope)
	s.Context, s.cancel = context.WithCancelCause(l.parent)
	if !l.made.CompareAndSwap(nil, s) {
		s.cancel(nil) // somebody else has made it
	}
	return l.made.Load()
}

// Resign says that all work of this leadership has come to an end, and releases the
// lease. What was elected by Campaign or Try must be resigned also after it was
// lost: until then this process does not bid again. Leave and Close do it too:
// stop that work first. It returns when the lease is
// released, or with ctx's error. A lead function does not call it, but returns.
func (l *Leadership) Resign(ctx context.Context) error {
	e := l.election
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

// Lead makes this process campaign, and campaign again after every loss, until
// Leave or Close. fn runs in each leadership on a goroutine of its own; that of one
// term has returned before there is another bid. Lead does not wait.
//
// fn may be nil, for programs that ask Leading before each piece of work; then
// there is nothing to wait for when this process steps down, and work that was
// begun may overlap with the next leader's. Check the term where it matters.
func (e *Election) Lead(fn LeadFunc) error {
	_, err := e.campaign(e.manager.ctx, fn, modeAlways, map[bool]work{true: workFunction, false: workNone}[fn != nil], nil)
	return err
}

// Run campaigns, calls fn with a context and the term, waits for it to return,
// and campaigns again, until ctx ends. Then it steps down in order and returns
// nil when the lease is released, or [ErrNotReleased] when the lease has run out first.
// Otherwise Run returns an error only if it could not begin, if the store will never
// accept this candidate, or if fn has not returned StepDownTimeout after ctx ended.
func (e *Election) Run(ctx context.Context, fn LeadFunc) error {
	if fn == nil {
		return fmt.Errorf("election: run: %w: no function", backend.ErrInvalid)
	}
	// Not cancelled with ctx, but by stepping down, with the reason as its cause.
	refused := make(chan error, 1)
	attempt, err := e.campaign(context.WithoutCancel(ctx), fn, modeAlways, workFunction, &waiter{what: untilRefused, done: refused})
	if err != nil {
		return err
	}
	if err := e.wait(ctx, refused); ctx.Err() == nil {
		return err
	}
	// The release takes no longer than the lease lasts.
	most := e.manager.opts.StepDownTimeout + e.manager.opts.TTL
	stuck := fmt.Errorf("election: run: the function has not returned within %v", most)
	stepDown, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), most, stuck)
	defer cancel()
	return e.withdraw(stepDown, attempt)
}

// Campaign campaigns until this process is elected, and returns the leadership. The
// caller ends it with [Leadership.Resign], also after it was lost. When ctx ends
// first, campaigning ends and ctx's error is returned.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeOnce)
}

// Try makes one attempt: it looks at the lease and bids if it is free now. A lease
// whose holder has gone is free when this process has watched it for its TTL, so
// join before trying. It returns nil if somebody else leads, and for RenewEvery after a
// resignation of this process, which lets others have it. What was won is ended with
// [Leadership.Resign].
func (e *Election) Try(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeTry)
}

func (e *Election) once(ctx context.Context, mode mode) (*Leadership, error) {
	elected := make(chan error, 1)
	attempt, err := e.campaign(e.manager.ctx, nil, mode, workCaller, &waiter{what: untilElected, done: elected})
	if err != nil {
		return nil, err
	}
	switch err := e.wait(ctx, elected); {
	case err == nil:
		return e.leadership.Load(), nil
	case err == errNotElected:
		return nil, nil
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
	if !m.tell(func(time.Duration) input {
		switch {
		case e.elec.slot < 0 || e.elec.want.leaving:
			started <- ErrClosed
			return nil
		case e.elec.mode != modeNone || e.elec.phase == phaseLeading || e.elec.phase.draining():
			started <- fmt.Errorf("election: campaign for %q: %w: it is campaigned for or led already", e.elec.name, backend.ErrInvalid)
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
		e.resolve(untilElected, errNotElected) // nobody listens any more
		e.resolve(untilRefused, nil)
		e.awaitRelease(0, done, attempt)
		return withdraw{&e.elec, e.fn == nil} // without a function: elected behind our back, nobody has begun
	})
}
