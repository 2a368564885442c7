package election

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// The machine is the whole protocol of one manager as a pure state machine: it
// has no goroutine, reads no clock, does no I/O and depends on no map order. Time
// is passed in, as the time since the manager's clock started. Each step takes
// one input and returns the actions to carry out; [Manager] is the thin shell
// that does so, and the simulation in this package's tests is another.
//
// Read on in machine_lease.go (what happens to a lease that is ours),
// machine_watch.go (what we see of others) and machine_calls.go (how elections
// travel together in calls of the store).
type machine struct {
	Options
	me             backend.Candidate
	listen         bool          // the store has news (Guarantees.Push)
	poll           bool          // and must be read all the same (Guarantees.Poll)
	takeover       time.Duration // how much longer than its TTL the store keeps a lease (Guarantees.Takeover)
	random         *rand.Rand
	jitterFraction float64 // drawn anew for each reply; see jitter

	elections []*elec // in order of joining; nil where one has left
	timers    timers  // elections by wake
	queues    [calls][]*elec
	inFlight  [calls]*call // at most one of each kind is under way

	joinCount           uint32        // elections ever
	gridOffset          time.Duration // of the renewal grid, which all leases share
	announceAt          time.Duration
	healthAt            time.Duration
	listenAt            time.Duration
	retryAt             [calls]time.Duration // after an error of that kind: not before
	failures            [calls]int           // in a row
	releaseBatch        int                  // how many leases are released in one call; 0: all
	relisten            bool                 // the set of leases to listen to has changed
	emptyNotifications  int                  // Listen came back and nothing had changed, in a row
	notificationUnread  bool                 // Listen has come back, and nothing has been read since
	lastContact         time.Duration        // when the store last answered anything without an error
	lastContactErr      error                // the last error since
	nextStep            time.Duration        // the step that next has asked for
	resumedAt           time.Duration        // when this process last went on, that had been stopped
	unreadableSince     time.Duration        // since when readings fail; never: they do not
	unreachableReported bool                 // said that the store is unreachable
	deniedLogged        bool                 // said so already
	unhealthy           bool
	healthKnown         bool // the first health check has returned, or there is none
	paused              bool // so that what is joined later is, too
	closing             bool

	unobserved *backend.Lease // one for all elections; stays empty
	actions    []action
}

// elec is the machine's state of one election.
type elec struct {
	name  string
	shell *Election // not the machine's

	index   int    // in machine.elections; -1: gone
	seq     uint32 // order of joining, among those that wake at once
	mode    mode
	work    work // what runs while this process leads
	paused  bool // by Pause: this process does not campaign
	leaving bool // Leave or Close was called

	// What the store was last observed to hold, and since when, on our own clock and
	// counted from receipt, it has been unchanged. Not updated while ours.
	observed       *backend.Lease // machine.unseen if nothing was seen since it was ours, or ever
	unchangedSince time.Duration
	confirmedAt    time.Duration // when seen was last confirmed, or dropped
	highestTerm    uint64        // the greatest ever seen here
	tooEarly       int32         // readings in a row that came too early for a renewal; up to many
	readAt         time.Duration
	tryBegan       time.Duration // a look sent from then on is news to the newest attempt (Try)
	readSinceTry   bool          // since then
	hasObserved    bool          // observed at least once
	sameIDReported bool          // reported that another process has our id
	deniedCall     callKind      // reported that the store denies this call, plus one; 0: none

	phase phase

	// What is ours while the phase is one that holds the lease.
	term              uint64
	trustedUntil      time.Duration // trusted deadline: request sent + TTL − clock margin
	expiresAt         time.Duration // when it has run out in the store, unless it is renewed
	end               backend.End   // what a release will say
	stuckAt           time.Duration // when waiting for the function becomes a complaint, and renewing ends
	lastErr           error         // of the last renewal that failed, since one that did not
	renewAt           time.Duration // the next renewal
	electedAt         time.Duration // when this leadership began
	functionErrors    int32         // of the function, in a row; up to many
	noBidBefore       time.Duration // no bid before
	pauseAfterRelease time.Duration // … and for so long after the release
	retryBidAt        time.Duration // no bid before, since the last has brought nothing
	failures          int32         // bids in a row that brought nothing, or renewals without an outcome; up to many

	observing  bool // a look is under way
	busy       bool // a call about our lease is: acquire, renew or release
	queued     [calls]bool
	wake       time.Duration
	timerIndex int    // in timers; -1: none
	reported   *state // what watchers were told last
}

type mode uint8

const (
	modeNone   mode = iota // observe only
	modeTry                // one attempt, if the lease is free now
	modeOnce               // campaign until elected
	modeAlways             // campaign again after every loss
)

// never is a time that does not come. No other duration exceeds longest, so that
// a few of them can be added up.
const (
	never       = time.Duration(1<<63 - 1)
	maxDuration = 20 * 365 * 24 * time.Hour
)

// many is where elec stops counting what happens in a row.
const maxCount = 1000

// greatest is the greatest term that a store can grant (backend.NextTerm). What
// is above it was planted.
const maxTerm = 1<<62 - 1

// An input of a step. Where e may be nil it stands for all elections.
type input interface{ input() }

type (
	tick struct{}          // time has passed
	join struct{ e *elec } // a new election; e.name is set

	// Perhaps so much more time has passed than the clock has counted: the machine may have
	// been suspended. A holder must believe it, a challenger must not.
	stepped struct{ by time.Duration }

	campaign struct {
		e    *elec
		mode mode
		work work
	}
	withdraw struct { // ends campaigning and the leadership
		e    *elec
		done bool // the function has returned, and nobody will tell
	}
	suspend struct {
		e  *elec // or nil
		on bool
	}
	resign struct { // that very leadership
		e    *elec
		term uint64
	}
	leave struct {
		e   *elec // nil: the manager closes
		end backend.End
	}
	returned struct { // the lead function of that term has returned
		e      *elec
		term   uint64
		reason Reason // why it did, if it was not told to
		err    error  // … and the function's own
	}
	reply struct { // a call has ended
		call    *call
		answers []backend.Answer // Acquire, Renew
		changed []backend.Lease  // Observe
		err     error
	}
)

func (tick) input()     {}
func (join) input()     {}
func (stepped) input()  {}
func (campaign) input() {}
func (withdraw) input() {}
func (suspend) input()  {}
func (resign) input()   {}
func (leave) input()    {}
func (returned) input() {}
func (reply) input()    {}

// Actions that a step returns, in order.
type action struct {
	kind   actionKind
	e      *elec
	call   *call
	state  *state
	term   uint64
	until  time.Duration
	reason Reason
	err    error
}

type actionKind uint8

const (
	doCall     actionKind = iota // call: start it
	doCancel                     // call: cancel its context, its reply will follow
	doTrust                      // e leads in term and may be trusted until; the first one of a term starts the leadership
	doLose                       // e's leadership of term has ended, for reason: cancel its context
	doEvent                      // state, or a notice in the form of one
	doLog                        // reason and err are about e (nil: the manager)
	doTryEnded                   // e's attempt is over; err says why it failed, if not by losing
	doExpired                    // e's lease has run out, and its release, which err hinders, is waited for no longer
	doRemoved                    // e has left and nothing of ours is left in the store
)

func newMachine(o Options, g backend.Guarantees, me backend.Candidate, rnd *rand.Rand, now time.Duration) *machine {
	m := &machine{Options: o, me: me, listen: g.Push, poll: g.Poll, takeover: g.Takeover, random: rnd, lastContact: now, unreadableSince: never, nextStep: never, healthKnown: o.Health == nil, unobserved: new(backend.Lease)}
	m.timers.init()
	// The phase of the renewal grid is jittered once, its period never:
	// followers predict it.
	m.gridOffset = time.Duration(rnd.Int64N(int64(o.RenewEvery)))
	m.announceAt, m.healthAt = now+m.shortWait(), now // by then it knows for what it campaigns
	if o.Observer {
		m.announceAt = never
	}
	if o.Health == nil {
		m.healthAt = never
	}
	return m
}

// step is the machine: it takes what happened at now and returns what to do.
// The slice is valid until the next step.
func (m *machine) step(now time.Duration, in input) []action {
	if now-m.nextStep > m.CallTimeout { // no timer is that late
		m.resumedAt = now
	}
	clear(m.actions) // it keeps nothing alive
	m.actions = m.actions[:0]
	m.handle(now, in)
	if c := m.inFlight[callHealth]; c != nil && now >= c.sent+c.timeout {
		m.healthReplied(now, errOverdue)
	}
	for e := m.timers.due(now); e != nil; e = m.timers.due(now) {
		e.wake = never
		m.advance(now, e)
	}
	if now >= m.unreachableAt() {
		m.unreachable()
	}
	m.dispatch(now)
	out := m.actions
	if cap(out) > 64 {
		m.actions = nil // or it would be so much more that each election takes
	}
	return out
}

func (m *machine) handle(now time.Duration, in input) {
	switch in := in.(type) {
	case tick:
	case join:
		m.join(now, in.e)
	case stepped:
		m.stepped(now, in.by)
	case campaign:
		m.campaign(now, in)
	case suspend:
		m.suspend(now, in)
	case resign:
		m.resign(now, in)
	case withdraw:
		m.withdraw(now, in)
	case leave:
		m.leave(now, in)
	case returned:
		m.returned(now, in)
	case reply:
		m.reply(now, in)
	default:
		panic(fmt.Sprintf("election: the machine does not know the input %T", in))
	}
}

// next returns when the machine must be stepped again though nothing happens.
func (m *machine) next() time.Duration {
	next := min(m.timers.first(), m.unreachableAt())
	for k := range calls {
		if m.inFlight[k] == nil {
			next = min(next, max(m.callDueAt(k), m.retryAt[k]))
		}
	}
	if c := m.inFlight[callListen]; c != nil && !c.cancelled {
		next = min(next, c.stale)
	}
	if c := m.inFlight[callHealth]; c != nil && !m.unhealthy {
		next = min(next, c.sent+c.timeout)
	}
	m.nextStep = next
	return next
}

func (m *machine) each(one *elec, do func(*elec)) {
	if one != nil {
		do(one)
		return
	}
	for _, e := range slices.Clone(m.elections) {
		if e != nil {
			do(e)
		}
	}
}

func (m *machine) join(now time.Duration, e *elec) {
	e.timerIndex, e.wake, e.readAt, e.confirmedAt = -1, never, now, -1
	e.observed = m.unobserved
	e.reported = new(state)
	e.index, e.seq = len(m.elections), m.joinCount
	m.joinCount++
	e.leaving, e.paused = m.closing, m.paused
	m.elections = append(m.elections, e)
	m.relisten = true
	m.advance(now, e)
}

// gone forgets an election that has left.
func (m *machine) remove(e *elec) {
	m.timers.set(e, never)
	last := len(m.elections) - 1
	m.elections[e.index] = m.elections[last]
	m.elections[e.index].index = e.index
	m.elections = m.elections[:last]
	e.index = -1
	m.emit(action{kind: doRemoved, e: e})
}

func (m *machine) emit(a action) { m.actions = append(m.actions, a) }

// jitter returns d, less up to a fifth. It is the same part for all elections of one
// reply, so that what has failed together is tried again together.
func (m *machine) jitter(d time.Duration) time.Duration {
	return d - time.Duration(m.jitterFraction*float64(d/5))
}

// show tells watchers a new state of e, if it is one. leader is nil unless somebody
// leads.
func (m *machine) report(kind Kind, e *elec, leader *backend.Candidate, term uint64, reason Reason, err error) {
	old := e.reported
	term = cmp.Or(term, old.term)
	if old.reason != "" && !reason.newsAfter(old.reason) && old.is(kind, leader, term) { // mostly
		return
	}
	if leader != nil && leader != &m.me {
		leader = new(*leader) // the caller's may change
	}
	e.reported = &state{kind: kind, leader: leader, previous: old.last(), term: term, reason: reason, err: err}
	e.reported.leading = kind == Elected && e.phase == phaseLeading
	m.emit(action{kind: doEvent, e: e, state: e.reported})
	if kind == Elected {
		m.relisten = true
	}
}

// notice tells watchers something beside the state.
func (m *machine) reportNotice(e *elec, reason Reason, err error) {
	m.emit(action{kind: doEvent, e: e, state: &state{
		kind: Notice, previous: e.reported.last(), term: e.reported.term, leading: e.phase == phaseLeading, reason: reason, err: err}})
}
