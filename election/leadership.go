package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Leadership is one leadership of this process.
type Leadership struct {
	// Term is the fencing token, greater than the term of every earlier leadership of this election. Send it
	// with every write, and let the receiver reject a term smaller than the largest it has seen.
	Term uint64

	election *Election
	until    atomic.Int64 // the deadline on the manager's clock; 0 after the end

	// The context is made when it is first asked for: a program that leads thousands of elections without a
	// function (Lead) needs none.
	made   sync.Once
	ctx    context.Context // until it is made: its parent
	cancel context.CancelCauseFunc
}

// Election returns the name of the election.
func (l *Leadership) Election() string { return l.election.elec.name }

// Leading reports whether this leadership is still the present one. See [Election.Leading].
func (l *Leadership) Leading() bool { return l.Remaining() > 0 }

// Remaining returns the time until the deadline, if the lease is not renewed again; 0 if the
// leadership is over. Start no work that takes longer and cannot be cancelled.
func (l *Leadership) Remaining() time.Duration {
	return max(0, time.Duration(l.until.Load())-l.election.manager.clock.latest())
}

// Context returns a context that is cancelled when the leadership ends, with an [*EndError] as its cause.
// After the process was stopped, the cancellation takes a moment, while Leading is right at once.
func (l *Leadership) Context() context.Context {
	l.made.Do(func() { l.ctx, l.cancel = context.WithCancelCause(l.ctx) })
	return l.ctx
}

// Resign ends this leadership and releases its lease. Stop all work of the leadership first. A leadership
// from Campaign or Try must be resigned even after it was lost: until then this process does not bid again.
// Leave and Close resign it too. Resign waits for the release; it returns [ErrNotReleased] if the lease
// expired first, and ctx's error if ctx ends first. It does nothing if the leadership is over. A lead
// function gets [ErrOwnCaller]; it should return instead.
func (l *Leadership) Resign(ctx context.Context) error {
	e := l.election
	if e.calledByOwnFunction() {
		return ErrOwnCaller
	}
	return e.await(ctx, func(done chan error) input {
		e.awaitRelease(done, func() bool { return e.released(l.Term) })
		if e.elec.work == workCaller {
			return returned{&e.elec, l.Term, ReasonResigned, nil}
		}
		return resign{&e.elec, l.Term}
	})
}

// Lead campaigns in the background until Leave or Close, again after every leadership. It does not wait. fn
// runs in each leadership on a goroutine of its own. The function of one term has returned before this
// process bids again.
//
// When fn returns while this process leads, the lease is released, and this process bids again after
// RenewEvery. That wait doubles with each consecutive error of fn, up to 32 times RenewEvery; a leadership
// that lasted longer than that resets it. The event that ends the leadership has the error.
//
// fn may be nil, for programs that call Leading before each piece of work. Then a step-down waits for
// nothing, and work that has begun may overlap with the next leader's work: fence it with the term.
//
// The error is [ErrCampaigning], [ErrClosed], or backend.ErrInvalid for an observer.
func (e *Election) Lead(fn LeadFunc) error {
	w := workFunction
	if fn == nil {
		w = workNone
	}
	_, err := e.campaign(e.manager.ctx, fn, campaign{&e.elec, modeAlways, w})
	return err
}

// Run campaigns and calls fn when this process is elected, until fn returns by itself. Then Run releases the
// lease and returns fn's error.
//
// When the leadership ends before fn returns, fn's context is cancelled. Run waits for fn, ignores its error,
// and campaigns again. When ctx ends, Run steps down in order, waits for fn, releases the lease and returns
// nil.
//
// Other errors: those of Lead; backend.ErrInvalid for a nil fn or a candidate that the store will never
// accept; backend.ErrDenied if the store has denied every call since the manager began (wrong credentials, no
// table); [ErrNotReleased]; and one that says that fn has not returned StepDownTimeout + TTL after ctx ended.
func (e *Election) Run(ctx context.Context, fn LeadFunc) error {
	if fn == nil {
		return fmt.Errorf("election: run: %w: no function", backend.ErrInvalid)
	}
	done := make(chan error, 1) // fn has returned by itself
	reporting := func(ctx context.Context, lead *Leadership) (err error) {
		defer func() { // fn may end its goroutine
			if ctx.Err() == nil {
				select {
				case done <- err:
				default: // an earlier return is being handled
				}
			}
		}()
		return fn(ctx, lead)
	}
	// fn's context does not end with ctx: stepping down cancels it, with the reason as its cause.
	endless := context.WithoutCancel(ctx)
	refused := waiter{awaits: untilRefused, done: make(chan error, 1)}
	attempt, err := e.campaign(endless, reporting, campaign{&e.elec, modeAlways, workFunction}, refused)
	if err != nil {
		return err
	}
	var result error
	select {
	case result = <-done:
	case err := <-refused.done:
		if errors.Is(err, backend.ErrDenied) { // an operator must act, and this process need not wait for it
			e.giveUp(ctx, attempt)
		}
		return err
	case <-ctx.Done():
	case <-e.manager.ended:
		return ErrClosed
	}
	// The release takes no longer than the lease lasts.
	most := e.manager.opts.StepDownTimeout + e.manager.opts.TTL
	stuck := fmt.Errorf("election: run: the function has not returned within %v", most)
	stepDown, cancel := context.WithTimeoutCause(endless, most, stuck)
	defer cancel()
	err = e.withdraw(stepDown, attempt)
	select {
	case result = <-done: // fn returned at the moment at which ctx ended
	default:
	}
	if err != nil {
		return errors.Join(result, err)
	}
	return result
}

// Campaign waits until this process is elected, and returns the leadership. The caller must end it with
// [Leadership.Resign], even after it was lost. When ctx ends first, Campaign stops campaigning and returns
// ctx's error. Other errors: those of Lead, backend.ErrInvalid for a candidate that the store will never
// accept, and backend.ErrDenied if the store has denied every call since the manager began.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeOnce)
}

// Try makes one attempt: it reads the lease, and bids if the lease is free. A lease whose holder has crashed
// becomes free only when this process has observed it for its TTL, so join some time before trying. Try
// returns [ErrNotElected] if another process leads, until a lease of this process is released, and for
// RenewEvery after it has resigned, so that others can lead. Other errors are those of [Election.Campaign],
// and the store's. The caller must end the leadership with [Leadership.Resign].
func (e *Election) Try(ctx context.Context) (*Leadership, error) {
	return e.once(ctx, modeTry)
}

func (e *Election) once(ctx context.Context, mode mode) (*Leadership, error) {
	elected := waiter{awaits: untilElected, done: make(chan error, 1)}
	attempt, err := e.campaign(e.manager.ctx, nil, campaign{&e.elec, mode, workCaller}, elected)
	if err != nil {
		return nil, err
	}
	err = e.wait(ctx, elected.done)
	if err == nil {
		return e.leadership.Load(), nil
	}
	if ctx.Err() != nil || errors.Is(err, backend.ErrDenied) {
		e.giveUp(ctx, attempt)
	}
	return nil, err
}

// giveUp ends a campaign whose caller no longer waits.
func (e *Election) giveUp(ctx context.Context, attempt int) {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.manager.opts.CallTimeout)
	defer cancel()
	e.withdraw(undo, attempt)
}

// campaign begins a campaign and registers waiters. It returns the campaign's number, for withdraw.
func (e *Election) campaign(ctx context.Context, fn LeadFunc, in campaign, w ...waiter) (int, error) {
	m, name, attempt := e.manager, e.elec.name, 0
	if m.opts.Observer {
		err := fmt.Errorf("%w: this manager only observes", backend.ErrInvalid)
		return 0, fmt.Errorf("election: campaign for %q: %w", name, err)
	}
	err := m.ask(func(time.Duration) (input, error) {
		denied := m.machine.deniedFromTheStart()
		switch {
		case e.elec.index < 0 || e.elec.leaving:
			return nil, ErrClosed
		case e.elec.mode != modeNone || e.elec.phase == phaseLeading || e.elec.phase.draining():
			return nil, fmt.Errorf("%w: %q", ErrCampaigning, name)
		case denied != nil && len(w) > 0: // w would wait for a notice that came before this campaign
			return nil, denied
		}
		e.attempt++
		attempt = e.attempt
		e.fn, e.parent = fn, ctx
		e.waiters = append(e.waiters, w...)
		return in, nil
	})
	return attempt, err
}

// withdraw ends the campaign with this number and its leadership, and waits for the release.
func (e *Election) withdraw(ctx context.Context, attempt int) error {
	return e.await(ctx, func(done chan error) input {
		if e.attempt != attempt {
			done <- nil // another campaign has begun
			return nil
		}
		e.resolve(ErrNotElected, untilElected) // its caller no longer waits
		e.resolve(nil, untilRefused)
		// A later campaign inherits what is left.
		e.awaitRelease(done, func() bool { return e.elec.idle() || e.attempt != attempt })
		return withdraw{&e.elec}
	})
}
