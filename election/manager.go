package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Manager takes part in elections on one store, as one candidate. It has one loop and one
// timer, however many elections it has joined. Other goroutines run for the calls of the store
// that are under way (one of each kind at most), for each watcher, for each lead function that
// runs, and while log records wait. All methods are safe for concurrent use.
type Manager struct {
	backend backend.Backend
	name    string // of the backend
	me      backend.Candidate
	opts    Options
	log     *slog.Logger
	clock   *clock

	inputs     chan func(now time.Duration) input // the loop runs each, and steps the machine with its result
	ended      chan struct{}                      // closed when the loop has ended, some time after Close
	stop       context.CancelFunc
	ctx        context.Context // parent of the contexts of calls and leaderships
	calls      sync.WaitGroup
	goroutines sync.WaitGroup // watchers, lead functions, and the log writer
	callers    sync.Map       // goroutine → the *Election whose lead function it runs, or nil for a callback

	unprepared chan struct{} // has an item that whoever prepares the store takes; closed when it is prepared

	mu        sync.Mutex
	elections map[string]*Election // nil after Close

	// Only the loop uses these fields.
	machine       *machine
	counters      counters
	unlisten      context.CancelFunc
	watchers      []*watcher
	waiting       []*Election   // elections with a waiter for a release
	ahead         time.Duration // jumps that the machine took off its deadlines: see clock.latest
	now           time.Duration // of the present step
	unreleased    []string      // elections whose leases expired before their release was confirmed
	unreleasedErr error         // why the first was not released
	lines         []line        // to be logged at the end of this step
	releasedAt    time.Duration // when a lease was last released; 0: never
}

// New starts a manager on b. The manager owns b from now on: Close closes it. New makes no call
// of the store, which may be unreachable. It fails with backend.ErrInvalid if b is nil, or if the
// options contradict each other or the store ([*OptionError]).
func New(b backend.Backend, options Options) (*Manager, error) {
	if b == nil {
		return nil, fmt.Errorf("election: %w: no backend: check the error of its Open", backend.ErrInvalid)
	}
	g := b.Guarantees()
	o, err := options.Complete(g)
	if err != nil {
		return nil, err
	}
	if o.Guard != nil {
		if err := backend.CanAdopt(b); err != nil {
			return nil, &OptionError{Option: "Guard", Reason: "cannot be set: " + err.Error()}
		}
	} else {
		o.Guard = noGuard{}
	}
	m := &Manager{
		backend: b, name: g.Name, opts: o, clock: newClock(),
		me:         Candidate{ID: o.ID, Nonce: backend.NewNonce(), Address: o.Address, Metadata: o.Metadata},
		inputs:     make(chan func(time.Duration) input),
		unprepared: make(chan struct{}, 1),
		ended:      make(chan struct{}),
		elections:  make(map[string]*Election),
	}
	m.unprepared <- struct{}{}
	log, least := o.Logger, slog.Level(math.MinInt)
	if log == nil {
		log, least = slog.Default(), slog.LevelWarn
	}
	handler := log.With("candidate", o.ID).Handler()
	m.log = slog.New(&logQueue{Handler: handler, least: least, start: m.goroutines.Go})
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.counters = newCounters(o.TTL)
	m.machine = newMachine(o, g, m.me, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), m.clock.now())
	go m.loop()
	return m, nil
}

// ID returns this candidate's id.
func (m *Manager) ID() string { return m.me.ID }

// loop is the shell around the machine. It waits for an input, or for the time that the machine
// asked for, steps the machine and carries out its actions. It ends with the last election after Close.
func (m *Manager) loop() {
	defer close(m.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var in input
		select {
		case f := <-m.inputs:
			if in = f(m.clock.now()); in == nil {
				continue
			}
		case <-timer.C:
			in = tick{}
		case <-m.clock.woken: // a deadline may have passed
			in = tick{}
		case <-m.ctx.Done():
			return
		}
		now := m.clock.now()
		if by := time.Duration(m.clock.ahead.Load()) - m.ahead; by > 0 {
			m.ahead += by
			m.step(now, clockJumped{by})
		}
		m.step(now, in)
		m.resolveReleased()
		if m.machine.closing && len(m.machine.elections) == 0 {
			return
		}
		timer.Reset(min(max(m.machine.wakeAt-m.clock.now(), 0), time.Hour))
	}
}

func (m *Manager) step(now time.Duration, in input) {
	m.now = now
	for _, a := range m.machine.step(now, in) {
		m.do(a)
	}
	m.writeLines()
}

// resolveReleased answers those who wait for a release that has happened.
func (m *Manager) resolveReleased() {
	m.waiting = slices.DeleteFunc(m.waiting, func(e *Election) bool {
		e.resolveIf(func(w *waiter) bool { return w.over != nil && w.over() }, nil)
		return !slices.ContainsFunc(e.waiters, func(w waiter) bool { return w.over != nil })
	})
}

// send has the loop run f. It returns false if the manager has ended.
func (m *Manager) send(f func(now time.Duration) input) bool {
	select {
	case m.inputs <- f:
		return true
	case <-m.ended:
		return false
	}
}

// ask has the loop run f, waits for it and returns its error: [ErrClosed] if the manager has ended.
func (m *Manager) ask(f func(now time.Duration) (input, error)) error {
	result := make(chan error, 1)
	if !m.send(func(now time.Duration) input {
		in, err := f(now)
		result <- err
		return in
	}) {
		return ErrClosed
	}
	return <-result
}

func (m *Manager) do(a action) {
	var e *Election
	if a.e != nil {
		e = a.e.shell
	}
	switch a.kind {
	case doCall:
		ctx, cancel := m.callContext(a.call)
		m.calls.Go(func() {
			defer cancel()
			m.call(ctx, a.call)
		})
	case doCancel:
		m.unlisten()
	case doLead:
		e.beginLeadership(a.term, a.until+m.ahead)
	case doTrust:
		e.extendLeadership(a.until + m.ahead)
	case doEnd:
		e.endLeadership(a.term, a.reason, a.err)
	case doEvent:
		e.publish(a.state)
	case doLogHealth:
		if a.err != nil {
			m.log.Warn("health check failed, stepping down", "error", a.err)
		} else {
			m.log.Info("health check passed, campaigning again")
		}
	case doLogOutage:
		m.logOutage(a)
	case doLogOver:
		m.log.Warn(a.text, "backend", m.name, "after", (m.now - a.since).Round(time.Millisecond))
	case doLogDoubt:
		m.logDoubt()
	case doLogBid:
		m.logBid(a)
	case doTryEnded:
		e.resolve(cmp.Or(a.err, ErrNotElected), untilElected)
	case doExpired:
		m.expired(e, a.err)
	case doRemoved:
		m.mu.Lock()
		delete(m.elections, a.e.name)
		m.mu.Unlock()
		e.ended() // after the deletion, so that a waiter can join again
	}
}

// expired tells whoever waits for the release of e's lease that it has expired first: Close, if nobody else
// was told.
func (m *Manager) expired(e *Election, obstacle error) {
	err := notReleased(obstacle, e.elec.name)
	if e.resolve(err, untilReleased, untilLeft) > 0 {
		e.expiryReported = true
	}
	if m.machine.closing && !e.expiryReported {
		m.unreleased = append(m.unreleased, e.elec.name)
		m.unreleasedErr = cmp.Or(m.unreleasedErr, obstacle)
	}
}

// Join makes the manager take part in an election, as an observer until Lead, Run, Campaign or Try is called
// on the result. Names are compared byte by byte. Join does not wait for the store. The error is [ErrJoined]
// if the manager has joined the election already (see [Manager.Election]), [ErrClosed], or of class
// backend.ErrInvalid for an impossible name.
func (m *Manager) Join(name string) (*Election, error) {
	if err := backend.CheckName(name); err != nil {
		return nil, fmt.Errorf("election: join: %w", err)
	}
	e := newElection(m, name)
	err := m.ask(func(time.Duration) (input, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.elections == nil:
			return nil, ErrClosed
		case m.elections[name] != nil:
			return nil, fmt.Errorf("%w: %q", ErrJoined, name)
		}
		m.elections[name] = e
		return join{&e.elec}, nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Election returns the joined election with this name, or nil. It does not block.
func (m *Manager) Election(name string) *Election {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.elections[name]
}

// Elections returns the elections that this manager has joined and not left, in byte order of
// their names. It does not block. After Close it returns none.
func (m *Manager) Elections() []*Election {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.elections))
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b *Election) int { return cmp.Compare(a.elec.name, b.elec.name) })
	return list
}

// Done returns a channel that is closed when the manager has ended. From then on this process leads nothing.
func (m *Manager) Done() <-chan struct{} { return m.ended }

// Pause makes this process step down from everything it leads, and stops all campaigns until
// Resume. It does not wait for the step-down. Elections joined later are paused, too.
func (m *Manager) Pause() { m.send(func(time.Duration) input { return pause{nil, true} }) }

// Resume ends a Pause for all elections, whether Manager.Pause or Election.Pause began it.
func (m *Manager) Resume() { m.send(func(time.Duration) input { return pause{nil, false} }) }

// Close steps down from everything in order, waits for the lead functions, releases the leases, and ends the
// manager. If the store is unreachable, Close waits no longer than the leases last, and returns
// [ErrNotReleased].
//
// When ctx ends first, Close cancels all contexts and returns an error that names the elections that were not
// released; their leases expire within one TTL. After Close this process leads nothing, and no goroutine is
// left, unless a lead function or a watcher's callback does not return. Just after a release Close waits up
// to 25 ms before it closes its backend, so that the successor's bid comes first. A second Close returns
// [ErrClosed]. In a lead function or a callback, Close returns [ErrOwnCaller] and does nothing.
func (m *Manager) Close(ctx context.Context) error {
	if _, own := m.calledBy(); own {
		return ErrOwnCaller
	}
	m.mu.Lock()
	if m.elections == nil {
		m.mu.Unlock()
		return ErrClosed
	}
	m.elections = nil
	m.mu.Unlock()

	m.send(func(time.Duration) input { return leave{end: backend.Released} })
	var err error
	select {
	case <-m.ended:
	case <-ctx.Done():
		const text = "election: close: %w; these leases were not released and expire within %v: %s"
		err = fmt.Errorf(text, context.Cause(ctx), m.opts.TTL, someNames(m.abandon()))
	}
	m.stop()
	<-m.ended
	if len(m.unreleased) > 0 {
		err = errors.Join(notReleased(m.unreleasedErr, m.unreleased...), err)
	}
	for _, w := range m.watchers {
		w.stop(err != nil)
	}
	if err == nil {
		m.opts.Guard.Close()
	}
	m.waitForSuccessor(ctx)
	done := make(chan error, 1)
	go func() {
		m.calls.Wait()
		closed := m.backend.Close()
		m.goroutines.Wait()
		done <- closed
	}()
	select {
	case closed := <-done:
		return errors.Join(err, closed)
	case <-ctx.Done():
		if err == nil {
			err = fmt.Errorf("election: close: %w; a watcher or a call has not returned", context.Cause(ctx))
		}
		return err
	}
}

// successorWait is how long a process that has just released a lease waits before it closes its backend. The
// backend's last writes, such as ending its session, would come before the successor's bid, and delay it by
// one more durable write: a third of a handover.
const successorWait = 25 * time.Millisecond

func (m *Manager) waitForSuccessor(ctx context.Context) {
	rest := m.releasedAt + successorWait - m.clock.now()
	if m.releasedAt == 0 || rest <= 0 {
		return
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
}

// abandon ends all leaderships at once, and returns the names of the elections that were not released.
func (m *Manager) abandon() (names []string) {
	m.ask(func(time.Duration) (input, error) {
		for _, e := range m.machine.elections {
			names = append(names, e.name)
			e.shell.endLeadership(e.term, ReasonLeft, nil)
			e.shell.ended()
		}
		m.writeLines()
		return nil, nil
	})
	return names
}
