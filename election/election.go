package election

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/page"
)

// An Election is a manager's part in one election. All methods are safe for concurrent use,
// also inside callbacks and lead functions.
type Election struct {
	manager    *Manager
	leadership atomic.Pointer[Leadership] // the latest; nil before the first
	state      atomic.Pointer[state]      // the latest that was sent to watchers

	// Only the manager's loop uses these fields. elec.name never changes; everybody may read it.
	elec           elec
	fn             LeadFunc        // runs in each leadership; may be nil
	parent         context.Context // parent of the leaderships' contexts
	waiters        []waiter
	watchers       []*watcher
	attempt        int  // number of the present campaign
	expiryReported bool // a waiter has got ErrNotReleased for the latest leadership
}

// A LeadFunc runs while this process leads. Its context is cancelled when the leadership ends; context.Cause
// then returns an [*EndError]. The function must return soon after: the lease is not released before. A
// function that returns while the process leads gives up the leadership; its error is then in the event
// (Event.Err) and in the log.
type LeadFunc func(ctx context.Context, lead *Leadership) error

// A waiter is a call that waits. Its channel gets nil when the event has happened, or an error when it will
// not happen.
type waiter struct {
	awaits awaited
	over   func() bool // untilReleased: that has happened; else nil. It is called after each step
	done   chan error
}

type awaited uint8

const (
	untilElected  awaited = iota // this process is elected; an error: the campaign has ended
	untilRefused                 // the store will never accept this candidate, or has denied all calls so far
	untilReleased                // a leadership is over and its lease is released
	untilLeft                    // this process has left the election
)

func newElection(m *Manager, name string) *Election {
	e := &Election{manager: m}
	e.elec.name, e.elec.shell, e.elec.index = name, e, -1
	e.state.Store(&state{kind: Unknown, reason: ReasonCurrent})
	return e
}

// Name returns the election's name.
func (e *Election) Name() string { return e.elec.name }

// Leading reports whether this process leads at this instant. It does not block and costs one
// clock read. It compares the clock with the deadline at each call, so it is right at the first
// instruction after the process or the machine was stopped. No lease can promise that the
// process still leads when the next statement runs: send the term with every write.
func (e *Election) Leading() bool { return e.Leadership() != nil }

// Leadership returns the present leadership of this process, or nil if it does not lead. It does not block.
func (e *Election) Leadership() *Leadership {
	if l := e.leadership.Load(); l != nil && l.Leading() {
		return l
	}
	return nil
}

// Leader returns the leader and its term, as far as this process knows. ok is false if nobody
// leads or the store cannot be reached. A follower learns of a change after one reading
// (RenewEvery) at most, or at once if the store pushes changes. Leader does not block. Decide
// with [Election.Leading], never with Leader, whether to act as the leader.
func (e *Election) Leader() (leader Candidate, term uint64, ok bool) {
	s := e.Current()
	return s.Leader, s.Term, s.Kind == Elected
}

// Current returns the present state as an event. It does not block.
func (e *Election) Current() Event {
	s := e.state.Load().event(e.elec.name)
	if s.Leading && !e.Leading() { // the deadline has passed, and the loop has not reported it yet
		s.Kind, s.Reason, s.Leading = Vacant, ReasonDeadline, false
		s.Previous, s.Leader = s.Leader, Candidate{}
	}
	return s
}

// Pause makes this process step down if it leads, and stops it from campaigning until Resume.
// It does not wait for the step-down.
func (e *Election) Pause() {
	e.manager.send(func(time.Duration) input { return pause{&e.elec, true} })
}

// Resume ends a Pause. It does not wait.
func (e *Election) Resume() {
	e.manager.send(func(time.Duration) input { return pause{&e.elec, false} })
}

// Resign ends the present leadership in order: Leading becomes false, the function's context is cancelled,
// the function returns, the lease is released. Resign waits for all of it: of a leadership from Campaign or
// Try until its caller calls [Leadership.Resign], and for a function that does not return also after the
// lease has expired. It returns [ErrNotReleased] if the work has ended and the lease expired before the store
// confirmed the release, and ctx's error if ctx ends first; the resignation then continues. After half a TTL,
// Lead and Run campaign again. Resign does nothing if this process does not lead. The election's own lead
// function gets [ErrOwnCaller].
func (e *Election) Resign(ctx context.Context) error {
	if e.calledByOwnFunction() {
		return ErrOwnCaller
	}
	return e.await(ctx, func(done chan error) input {
		if e.elec.phase.bids() {
			done <- nil
			return nil
		}
		term := e.elec.term
		e.awaitRelease(done, func() bool { return e.released(term) })
		return resign{&e.elec, term}
	})
}

// Leave resigns, stops campaigning and leaves the election. [Manager.Join] can join it again. Leave waits
// until the store has nothing of this process. It returns [ErrNotReleased] if the lease expired first, and
// ctx's error if ctx ends first; leaving then continues. The election's own lead function gets
// [ErrOwnCaller].
func (e *Election) Leave(ctx context.Context) error { return e.leave(ctx, backend.Released) }

func (e *Election) leave(ctx context.Context, end backend.End) error {
	if e.calledByOwnFunction() {
		return ErrOwnCaller
	}
	return e.await(ctx, func(done chan error) input {
		e.waiters = append(e.waiters, waiter{awaits: untilLeft, done: done})
		return leave{&e.elec, end}
	})
}

// Record reads the election's record from the store: the lease and the last leaderships. Its Term is 0 if
// nobody has led yet. It takes CallTimeout at most. The error is the store's (see backend.Class), ctx's, or
// [ErrClosed].
func (e *Election) Record(ctx context.Context) (backend.Record, error) {
	r, err := page.Record(ctx, e.manager.callStore, e.manager.backend, e.elec.name)
	if err != nil {
		return backend.Record{}, fmt.Errorf("election: read %q: %w", e.elec.name, err)
	}
	return r, nil
}

// Nominate asks for the candidate with this id to lead next, instead of the leader of the present term. The
// nominee accepts when it reads the request while it campaigns with Lead, Run or Campaign. Then the leader
// steps down in order, and for one TTL only the nominee bids. Nominate returns when the request is written:
// two calls of the store, CallTimeout at most for each. It fails with backend.ErrInvalid if nobody leads, and
// with backend.ErrStale if the term has changed meanwhile.
func (e *Election) Nominate(ctx context.Context, id string) error {
	if err := backend.CheckID(id); err != nil {
		return fmt.Errorf("election: nominate: %w", err)
	}
	return e.request(ctx, backend.Nominate, id)
}

// Depose ends the present leadership against the leader's will: the store refuses the leader's next renewal,
// and the leader steps down in order, releases the lease itself, and does not bid for one TTL. So there are
// never two leaders. Depose returns when the request is written, with the errors of [Election.Nominate].
func (e *Election) Depose(ctx context.Context) error { return e.request(ctx, backend.Depose, "") }

func (e *Election) request(ctx context.Context, kind backend.RequestKind, id string) error {
	r, err := e.Record(ctx)
	if err != nil {
		return err
	}
	if r.Vacant() {
		return fmt.Errorf("election: %s: %w: nobody leads %q", kind, backend.ErrInvalid, e.elec.name)
	}
	requests := []backend.Request{{Election: e.elec.name, Term: r.Term, Kind: kind, ID: id}}
	err = e.manager.callStore(ctx, func(ctx context.Context) error {
		return e.manager.backend.Request(ctx, requests)
	})
	if err != nil {
		return fmt.Errorf("election: %s: %w", kind, err)
	}
	return nil
}

// calledByOwnFunction reports whether the caller runs in the election's lead function.
func (e *Election) calledByOwnFunction() bool {
	by, _ := e.manager.calledBy()
	return by == e
}

// await runs f on the loop and waits for done. f returns an input for the machine, and sends
// to done or registers a waiter that will.
func (e *Election) await(ctx context.Context, f func(done chan error) input) error {
	done := make(chan error, 1)
	if !e.manager.send(func(time.Duration) input {
		if e.elec.index < 0 {
			done <- nil
			return nil
		}
		return f(done)
	}) {
		return ErrClosed
	}
	return e.wait(ctx, done)
}

func (e *Election) wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.manager.ended:
		select {
		case err := <-done:
			return err
		default:
			return ErrClosed
		}
	}
}

// Only the loop calls the methods below.

func (e *Election) awaitRelease(done chan error, over func() bool) {
	e.waiters = append(e.waiters, waiter{untilReleased, over, done})
	e.manager.waiting = append(e.manager.waiting, e)
}

// released reports whether the store has nothing of the leadership of term any more.
func (e *Election) released(term uint64) bool { return e.elec.idle() || e.elec.term != term }

// resolve answers all waiters for these events, and returns their number.
func (e *Election) resolve(err error, events ...awaited) (resolved int) {
	return e.resolveIf(func(w *waiter) bool { return slices.Contains(events, w.awaits) }, err)
}

// resolveIf answers and removes the waiters for which match returns true.
func (e *Election) resolveIf(match func(*waiter) bool, err error) (resolved int) {
	before := len(e.waiters)
	e.waiters = slices.DeleteFunc(e.waiters, func(w waiter) bool {
		answered := match(&w)
		if answered {
			w.done <- err
		}
		return answered
	})
	return before - len(e.waiters)
}

// beginLeadership begins a leadership. The program may trust it until a time of [clock.latest].
func (e *Election) beginLeadership(term uint64, until time.Duration) {
	l := &Leadership{Term: term, election: e, ctx: e.parent}
	l.until.Store(int64(until))
	e.leadership.Store(l)
	e.expiryReported = false
	e.manager.say(e.elec.name, line{level: slog.LevelInfo, text: "become leader", term: term})
	if fn := e.fn; fn != nil {
		e.manager.goroutines.Go(func() { e.run(fn, l) })
	}
	e.resolve(nil, untilElected)
}

// extendLeadership extends the present leadership, unless it has ended.
func (e *Election) extendLeadership(until time.Duration) {
	m, l := e.manager, e.leadership.Load()
	before := time.Duration(l.until.Load())
	if before == 0 {
		return
	}
	l.until.Store(int64(until))
	m.counters.remaining.add(max(0, before-m.now-m.ahead))
}

func (e *Election) run(fn LeadFunc, l *Leadership) {
	var err error
	// Deferred, because fn may end its goroutine (runtime.Goexit).
	defer func() {
		e.manager.send(func(time.Duration) input { return returned{&e.elec, l.Term, ReasonReturned, err} })
	}()
	defer e.manager.enter(e)()
	err = fn(l.Context(), l)
}

// endLeadership ends a leadership. Leading becomes false before the context is cancelled.
func (e *Election) endLeadership(term uint64, reason Reason, err error) {
	l := e.leadership.Load()
	if l == nil || l.Term != term || l.until.Swap(0) == 0 {
		return
	}
	l.Context() // also of a caller that asks for it later
	l.cancel(&EndError{Election: e.elec.name, Term: term, Reason: reason, Err: err})

	level := slog.LevelWarn
	switch reason {
	case ReasonResigned, ReasonReturned, ReasonLeft, ReasonPaused, ReasonNominated:
		level = slog.LevelInfo
		if err != nil { // the function's
			level = slog.LevelError
		}
	}
	e.manager.say(e.elec.name, line{level: level, text: "lost leader", reason: reason, err: err, term: term})
}

// publish sends a state of the machine to the watchers, and counts it.
func (e *Election) publish(s *state) {
	s.time = time.Now()
	before, ev := e.state.Load(), s.event(e.elec.name)
	own := ev.Leading || ev.Kind != Notice && before.leading
	e.manager.counters.changes[Change{Kind: ev.Kind, Reason: ev.Reason, Own: own}]++
	if ev.Kind == Notice {
		e.noticed(ev.Reason, ev.Err)
	} else {
		e.state.Store(s)
	}
	for _, w := range slices.Concat(e.watchers, e.manager.watchers) {
		w.add(ev, own, before)
	}
}

// noticed logs a notice. If it says that this process cannot be elected, whoever waits for that gets the
// error.
func (e *Election) noticed(reason Reason, err error) {
	m := e.manager.machine
	told := reason == ReasonDenied || reason == ReasonWentBack && m.doubtful(&e.elec) // logOutage, logDoubt
	if !told {
		e.manager.say(e.elec.name, line{level: slog.LevelWarn, text: string(reason), err: err})
	}
	if reason == ReasonInvalid || reason == ReasonDenied && m.deniedFromTheStart() != nil {
		e.resolve(err, untilElected, untilRefused)
	}
}

// ended answers all waiters and ends all watchers: this process has left the election.
func (e *Election) ended() {
	e.resolve(nil, untilReleased, untilLeft)
	e.resolve(ErrClosed, untilElected, untilRefused)
	for _, w := range e.watchers {
		w.stop(false)
	}
	e.watchers = nil
}
