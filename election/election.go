package election

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
)

// An Election is a manager's part in one election. All methods are safe for
// concurrent use, also inside callbacks and lead functions.
type Election struct {
	manager    *Manager
	leadership atomic.Pointer[Leadership] // nil before the first
	state      atomic.Pointer[state]      // what watchers were told last

	// The loop's own, but for its name, which does not change.
	elec           elec
	fn             LeadFunc        // runs in each leadership; may be nil
	parent         context.Context // of its leaderships
	attempt        int             // counts campaigns
	waiters        []waiter
	expiryReported bool // somebody was told that the latest leadership's lease ran out
	watchers       []*watcher
}

// A LeadFunc runs while this process leads. Its context is cancelled when the
// leadership ends; context.Cause then gives a [*LostError]. It must return soon
// after, because nobody else can be elected in order before it has. Returning
// earlier gives the leadership up; an error that it returns then is in the event that
// says so (Event.Err), and in the log.
type LeadFunc func(ctx context.Context, lead *Leadership) error

// A waiter is told when what it waits for has come, or why it never will.
type waiter struct {
	awaits awaited
	term   uint64 // untilReleased: of the leadership; 0: any
	done   chan error

	attempt int // untilReleased: the campaign that is being withdrawn; 0: none is
}

type awaited uint8

const (
	untilElected  awaited = iota // or campaigning has ended
	untilRefused                 // campaigning has ended for good
	untilReleased                // a leadership is over and nothing of it is left
	untilLeft                    // the election has left
)

func newElection(m *Manager, name string) *Election {
	e := &Election{manager: m}
	e.elec.name, e.elec.shell, e.elec.index, e.elec.timerIndex = name, e, -1, -1
	e.state.Store(&state{kind: Unknown, reason: ReasonCurrent})
	return e
}

// Name returns the election's name.
func (e *Election) Name() string { return e.elec.name }

// Leading reports whether this process leads right now: whether its lease is
// certain to last at this instant. It costs a clock read, and compares the clock
// with the deadline at each call, so that it is right at the first instruction
// after the process, or the machine, was stopped. What no lease can promise: that
// it still leads when the next statement is carried out. Hand the term to
// whatever you write to.
func (e *Election) Leading() bool {
	l := e.leadership.Load()
	return l != nil && l.Leading()
}

// Leadership returns the present leadership of this process, or nil if it does not lead.
func (e *Election) Leadership() *Leadership {
	if l := e.leadership.Load(); l != nil && l.Leading() {
		return l
	}
	return nil
}

// Leader returns who leads, as far as this process knows, and the term. ok is
// false if nobody does or it cannot be told. A follower learns of a change after
// at most one reading (RenewEvery) or one push of the store. Only [Election.Leading]
// may be relied on to act.
func (e *Election) Leader() (leader Candidate, term uint64, ok bool) {
	s := e.Current()
	return s.Leader, s.Term, s.Kind == Elected
}

// Current returns the state as a watcher would be told it now.
func (e *Election) Current() Event {
	s := e.state.Load().event(e.elec.name)
	if s.Leading && !e.Leading() { // the deadline has passed, and the loop has not come to say so
		s.Kind, s.Previous, s.Leader, s.Leading = Vacant, s.Leader, Candidate{}, false
	}
	return s
}

// Pause makes this process step down, if it leads, and not campaign until Resume.
// It returns at once.
func (e *Election) Pause() {
	e.manager.send(func(time.Duration) input { return suspend{&e.elec, true} })
}

// Resume ends Pause.
func (e *Election) Resume() {
	e.manager.send(func(time.Duration) input { return suspend{&e.elec, false} })
}

// Resign ends the present leadership in order: not leading, the function's context
// cancelled, the function returned, the lease released. It returns when that is
// done, with [ErrNotReleased] when the lease has run out first, or with ctx's error; the
// resignation goes on. Lead and Run campaign again after half a TTL. Resigning what is not led
// does nothing. The election's own lead function gets [ErrOwnCaller]: it should
// return instead.
func (e *Election) Resign(ctx context.Context) error {
	if e.calledByOwnFunction() {
		return ErrOwnCaller
	}
	return e.await(ctx, func(done chan error) input {
		if e.elec.phase.bids() {
			done <- nil
			return nil
		}
		e.awaitRelease(e.elec.term, done, 0)
		return resign{&e.elec, e.elec.term}
	})
}

// Leave resigns, ends campaigning and takes no further part. It returns when
// nothing of this process is left in the store, with [ErrNotReleased] when the lease has run out first, or
// with ctx's error; leaving goes on. The
// election's own lead function gets [ErrOwnCaller].
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

// Record reads from the store all that it keeps about the election, with the last
// leaderships. Term is 0 if nobody has led yet.
func (e *Election) Record(ctx context.Context) (backend.Record, error) {
	var list []backend.Record
	err := e.manager.callStore(ctx, func(ctx context.Context) (err error) {
		list, err = e.manager.backend.List(ctx, e.elec.name, 1)
		return err
	})
	if err != nil {
		return backend.Record{}, fmt.Errorf("election: read %q: %w", e.elec.name, err)
	}
	if len(list) == 0 || list[0].Election != e.elec.name {
		return backend.Record{Lease: backend.Lease{Election: e.elec.name}}, nil
	}
	r := list[0]
	r.Lease = backend.CleanLease(r.Lease)
	for i := range r.History {
		r.History[i].ID = backend.Clean(r.History[i].ID, backend.MaxID, false)
	}
	return r, nil
}

// Nominate asks that the candidate with this id lead next. The request is scoped to
// the present term. Nothing happens until that candidate sees it while it
// campaigns, and accepts; an attempt ([Election.Try]) does not. Then the leader
// steps down in order, and for one TTL only the nominee bids.
// Nominate returns when the request is written.
func (e *Election) Nominate(ctx context.Context, id string) error {
	if err := backend.CheckID(id); err != nil {
		return fmt.Errorf("election: nominate: %w", err)
	}
	return e.request(ctx, backend.Nominate, id)
}

// Depose ends the present leadership against the leader's will: its next renewal is
// refused, it releases by itself, and stays out for one TTL. It is never faster
// than the leader's own stepping down, so there are never two leaders. Depose
// returns when the request is written.
func (e *Election) Depose(ctx context.Context) error { return e.request(ctx, backend.Depose, "") }

func (e *Election) request(ctx context.Context, kind backend.RequestKind, id string) error {
	r, err := e.Record(ctx)
	if err != nil {
		return err
	}
	if r.Vacant() {
		return fmt.Errorf("election: %s: %w: nobody leads %q", kind, backend.ErrInvalid, e.elec.name)
	}
	err = e.manager.callStore(ctx, func(ctx context.Context) error {
		return e.manager.backend.Request(ctx, []backend.Request{{Election: e.elec.name, Term: r.Term, Kind: kind, ID: id}})
	})
	if err != nil {
		return fmt.Errorf("election: %s: %w", kind, err)
	}
	return nil
}

// calledByOwn reports whether the election's lead function calls.
func (e *Election) calledByOwnFunction() bool {
	by, _ := e.manager.calledBy()
	return by == e
}

// await has the loop run f, which makes an input and sees to it that done is
// told, and waits for that.
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

// The rest is called by the loop.

// awaitRelease has done told when the leadership of term is over; 0: when nothing is left, or
// another campaign than this attempt has begun, which takes over whatever is.
func (e *Election) awaitRelease(term uint64, done chan error, attempt int) {
	e.waiters = append(e.waiters, waiter{untilReleased, term, done, attempt})
	e.manager.waiting = append(e.manager.waiting, e)
}

// idle reports whether nothing of ours is in the store or on its way there.
func (e *Election) idle() bool {
	return e.elec.phase == phaseFollowing && !e.elec.busy
}

// resolve tells those who wait for it, and returns how many they were.
func (e *Election) resolve(what awaited, err error) (told int) {
	return e.resolveIf(func(w *waiter) bool { return w.awaits == what }, err)
}

// released tells who waits for the end of a leadership that is over, and reports whether
// somebody still waits.
func (e *Election) resolveReleased() (waiting bool) {
	e.resolveIf(func(w *waiter) bool {
		return w.awaits == untilReleased && (e.idle() || w.term != 0 && w.term != e.elec.term || w.attempt != 0 && w.attempt != e.attempt)
	}, nil)
	return slices.ContainsFunc(e.waiters, func(w waiter) bool { return w.awaits == untilReleased })
}

// tellIf tells the waiters that it holds for, and forgets them.
func (e *Election) resolveIf(over func(*waiter) bool, err error) (told int) {
	rest := e.waiters[:0]
	for i := range e.waiters {
		if w := e.waiters[i]; over(&w) {
			w.done <- err
			told++
		} else {
			rest = append(rest, w)
		}
	}
	clear(e.waiters[len(rest):])
	if e.waiters = rest; len(rest) == 0 {
		e.waiters = nil
	}
	return told
}

// trust begins a leadership, or extends it.
func (e *Election) trust(term uint64, until time.Duration) {
	if l := e.leadership.Load(); l != nil && l.Term == term && l.until.Load() > 0 {
		before := l.until.Swap(int64(until))
		e.manager.counters.remaining.add(max(0, time.Duration(before)-e.manager.now-e.manager.ahead))
		return
	}
	l := &Leadership{Term: term, election: e, parent: e.parent}
	l.until.Store(int64(until))
	e.leadership.Store(l)
	e.expiryReported = false
	m := e.manager
	m.log.Info("become leader", "backend", m.name, "election", e.elec.name, "term", term)
	if e.fn != nil {
		fn := e.fn
		m.goroutines.Go(func() { e.run(fn, l) })
	}
	e.resolve(untilElected, nil)
}

// run runs the lead function of one leadership.
func (e *Election) run(fn LeadFunc, l *Leadership) {
	var err error
	// Deferred: fn may end its goroutine.
	defer func() {
		e.manager.send(func(time.Duration) input { return returned{&e.elec, l.Term, ReasonReturned, err} })
	}()
	defer e.manager.enter(e)()
	err = fn(l.Context(), l)
}

// lose ends a leadership: not leading first, then the context.
func (e *Election) lose(term uint64, reason Reason, err error) {
	l := e.leadership.Load()
	if l == nil || l.Term != term || l.until.Swap(0) == 0 {
		return
	}
	lost := &LostError{Election: e.elec.name, Term: term, Reason: reason, Err: err}
	l.scope().cancel(lost)
	level := slog.LevelWarn
	switch reason {
	case ReasonResigned, ReasonReturned, ReasonLeft, ReasonPaused, ReasonNominated:
		if level = slog.LevelInfo; err != nil {
			level = slog.LevelError // the function's
		}
	}
	attrs := []any{"backend", e.manager.name, "election", e.elec.name, "term", term, "reason", string(reason)}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	e.manager.log.Log(context.Background(), level, "lost leader", attrs...)
}

// tell hands an event of the machine to the watchers.
func (e *Election) publish(s *state) {
	s.time = time.Now()
	before, ev := e.state.Load(), s.event(e.elec.name)
	own := ev.Leading || ev.Kind != Notice && before.leading
	e.manager.counters.changes[Change{Kind: ev.Kind, Reason: ev.Reason, Own: own}]++
	if ev.Kind != Notice {
		e.state.Store(s)
	} else {
		e.manager.log.Warn("notice", "reason", string(ev.Reason), "election", e.elec.name, "error", ev.Err)
		if ev.Reason == ReasonInvalid {
			e.resolve(untilElected, ev.Err)
			e.resolve(untilRefused, ev.Err)
		}
	}
	for _, w := range e.watchers {
		w.add(ev, own, before)
	}
	for _, w := range e.manager.watchers {
		w.add(ev, own, before)
	}
}

// current is what a new watcher is told first.
func (e *Election) firstEvent() Event {
	ev := e.Current()
	ev.Reason, ev.Time = ReasonCurrent, time.Now()
	return ev
}

// gone ends everything that waits for this election.
func (e *Election) ended() {
	e.resolve(untilReleased, nil)
	e.resolve(untilLeft, nil)
	e.resolve(untilElected, ErrClosed)
	e.resolve(untilRefused, ErrClosed)
	for _, w := range e.watchers {
		w.stop(false)
	}
	e.watchers = nil
}
