package election

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// The machine is the protocol of one manager as a pure state machine. It has no goroutine, reads
// no clock, does no I/O and does not depend on map order. Times are durations since the manager's
// clock started, and are passed in. Each step takes one input and returns the actions to carry
// out. [Manager] carries them out; in tests the simulation does.
//
//	machine_phase.go    phases and transitions
//	machine_input.go    inputs from the program: campaign, resign, pause, leave
//	machine_lease.go    the lease of this process: when to bid, renew, step down, release
//	machine_bid.go      answers to bids
//	machine_observe.go  the leases of other processes
//	machine_calls.go    calls of the store, each for many elections
//	machine_replies.go  how calls end
//	priority.go         who lets others bid first, and asks for a leadership
//	machine_outage.go   what is logged of the store: outage, doubt
type machine struct {
	Options
	me             backend.Candidate
	store          backend.Guarantees
	random         *rand.Rand
	jitterFraction float64 // drawn for each reply; see jitter

	elections []*elec         // in no particular order; elec.index is the position
	wakes     []time.Duration // when to advance each of them
	earliest  time.Duration   // none of them is earlier
	queues    [callKinds][]*elec
	inFlight  [callKinds]*call // one of each kind at most

	// When to make the next call of a kind.
	gridOffset   time.Duration // of the renewal grid: see nextGridTick
	announceAt   time.Duration
	announced    time.Duration // when the last Announce was sent
	healthAt     time.Duration
	listenAt     time.Duration
	retryAt      [callKinds]time.Duration // not before, after a failure
	failures     [callKinds]int           // consecutive
	releaseBatch int                      // leases in one Release; 0: all

	relisten           bool // the set of leases to listen to has changed
	emptyNotifications int  // consecutive notifications after which a reading found no change
	notificationUnread bool // Listen has returned, and no reading has followed

	// What is known about the store and this process.
	lastContact         time.Duration // when the store last answered without an error
	lastContactErr      error         // the last error since then
	reached             bool          // the store has answered a call without an error, once
	unreadableSince     time.Duration // when the failing readings began; never: readings work
	unreachableReported bool          // watchers were told that the store is unreachable
	away, denial        outage
	succeedAt           time.Duration // when the store was last said to be no longer away
	doubt               doubt
	priorities          priorities
	wakeAt              time.Duration // what next returned after the last step
	resumedAt           time.Duration // when this process last continued after it had been stopped
	unhealthy           bool
	healthKnown         bool // the first health check has returned, or there is none
	paused              bool // by Manager.Pause; elections joined later are paused, too
	closing             bool

	impossible func(phase, trigger) // for tests: a trigger has come that cannot come in this phase

	unobserved *backend.Lease // stays empty; all elections without an observation share it
	actions    []action       // of the present step
}

// elec is the machine's state of one election. A process may have many thousands: counters have 32 bits, and
// what is small lies together.
type elec struct {
	name  string
	shell *Election // for the manager; the machine does not use it

	index   int32 // in machine.elections; -1: has left
	mode    mode
	work    work // what runs while this process leads
	paused  bool // by Pause: this process does not campaign
	leaving bool // Leave or Close was called

	// The last observation of the lease. It is not updated while the lease is this process's.
	observed       *backend.Lease // machine.unobserved if hasObserved is false
	unchangedSince time.Duration  // when the answer came that first showed this lease
	confirmedAt    time.Duration  // when the last answer about the lease came, or observed was dropped
	highestTerm    uint64         // the greatest term ever seen
	readAt         time.Duration  // the next reading
	renewalDue     time.Duration  // when a reading will show the holder's next renewal; 0: not known
	tryBegan       time.Duration  // a Try uses only readings that were sent from then on
	tooEarly       int32          // consecutive readings that came before the holder's renewal
	hasObserved    bool           // observed at least once since this process last held the lease
	readSinceTry   bool           // a reading has been answered that a Try may use
	sameID         backend.Nonce  // watchers were told that this process uses the same id
	denied         bool           // watchers were told that the store denies calls of the kind deniedCall
	deniedCall     callKind

	phase phase // see machine_phase.go

	// The lease of this process. Valid while phase.held().
	term         uint64
	trustedUntil time.Duration // the deadline: request sent + ValidFor − clock margin
	expiresAt    time.Duration // in the store, also of a pending bid; releases are awaited until then
	end          backend.End   // the reason that a release will record
	stuckAt      time.Duration // when a function that has not returned counts as stuck
	lastErr      error         // of the last renewal; nil if it succeeded
	renewAt      time.Duration // the next renewal
	electedAt    time.Duration // when this leadership began

	// What delays the next bid.
	noBidBefore      time.Duration // after a resignation, a deposition or a loss
	waitAfterRelease time.Duration // from the release until noBidBefore
	retryBidAt       time.Duration // after a bid without success
	turn             time.Duration // after the lease is free, so that not all candidates bid at once
	readyAt          time.Duration // when this process was last a candidate, or led
	readySince       time.Duration // without a break of a TTL: others may have become candidates with it
	claimAt          time.Duration // from when on this process asks for the leadership; 0: it is not ready to
	claims           int32         // how often it has asked and then not led for long, up to maxClaims
	passedOver       int32         // how often another candidate was elected since this process led, or began
	failures         int32         // consecutive bids without success or renewals without an outcome
	functionErrors   int32         // consecutive errors of the function
	futile           bool          // the last bid was refused by the lease as it was observed

	observing         bool // an Observe is under way
	leaseCallUnderWay bool // an Acquire, Renew or Release is under way
	queued            [callKinds]bool
	reported          *state // the latest that watchers were told
}

type mode uint8

const (
	modeNone   mode = iota // observe only
	modeTry                // one attempt, if the lease is free now
	modeOnce               // campaign until elected
	modeAlways             // campaign again after every loss
)

// never is a time that does not come. No other duration exceeds maxDuration, so that a sum of a few
// does not overflow.
const (
	never       = time.Duration(1<<63 - 1)
	maxDuration = 20 * 365 * 24 * time.Hour
)

// An input of a step. A nil e means all elections, where that is allowed.
type input interface {
	apply(m *machine, now time.Duration)
}

type (
	tick struct{}          // time has passed
	join struct{ e *elec } // a new election; e.name is set

	// The host may have been suspended, so that this much more time may have passed than the
	// clock has counted. A holder must assume that it has, a challenger that it has not.
	clockJumped struct{ by time.Duration }

	campaign struct {
		e    *elec
		mode mode
		work work
	}
	withdraw struct{ e *elec } // ends the campaign and the leadership
	pause    struct {
		e  *elec // or nil
		on bool
	}
	resign struct { // the leadership of term
		e    *elec
		term uint64
	}
	leave struct {
		e   *elec // nil: the manager closes
		end backend.End
	}
	returned struct { // the lead function of term has returned
		e      *elec
		term   uint64
		reason Reason // of the event, if the leadership has not ended before
		err    error  // the function's
	}
	reply struct { // a call has ended
		call    *call
		answers []backend.Answer // Acquire, Renew
		changed []backend.Lease  // Observe
		members []backend.Member // Members
		err     error
	}
)

// An action is what the manager must do after a step. Actions are in order.
type action struct {
	kind   actionKind
	e      *elec
	call   *call
	state  *state
	term   uint64
	until  time.Duration // a deadline
	since  time.Duration // when what is logged began
	text   string        // of a log record
	reason Reason
	err    error
}

type actionKind uint8

const (
	doCall      actionKind = iota // start call
	doCancel                      // cancel the context of call; its reply follows
	doLead                        // e leads in term, until the deadline
	doTrust                       // e still leads in term: a later deadline
	doEnd                         // e's leadership of term has ended for reason: cancel its context
	doEvent                       // publish state, which may be a notice
	doLogHealth                   // log a result of the health check; err is nil if it passed
	doLogOutage                   // log that calls fail since then, for err, or are denied: see reason
	doLogOver                     // log text: what has begun then is over
	doLogDoubt                    // log that the store may have lost grants since then: see doubt
	doLogBid                      // log the answer to e's bid: granted in term if reason is ReasonElected
	doTryEnded                    // e's Try has failed; err says why, nil if another process was faster
	doExpired                     // e's lease has expired before its release was confirmed, for err
	doRemoved                     // e has left, and the store has nothing of this process
)

func newMachine(o Options, g backend.Guarantees, me Candidate, rnd *rand.Rand, now time.Duration) *machine {
	m := &machine{
		Options: o, me: me, store: g, random: rnd,
		// The grid's offset is random, its period is not: followers predict the next renewal.
		gridOffset: time.Duration(rnd.Int64N(int64(o.RenewEvery))),
		announceAt: never, announced: now - o.RenewEvery,
		healthAt: now, lastContact: now, unreadableSince: never, wakeAt: never, earliest: never,
		unobserved: new(backend.Lease),
	}
	if o.Health == nil {
		m.healthAt, m.healthKnown = never, true
	}
	m.priorities.readAt = never
	if (o.Priority > 0 || o.Reclaim > 0) && !o.Observer {
		m.priorities.readAt = now + o.RenewEvery // others that start now have announced themselves by then
	}
	m.announceSoon(now)
	return m
}

// step handles one input at the time now, and returns the actions. The slice is valid until the next step.
func (m *machine) step(now time.Duration, in input) []action {
	if now-m.wakeAt > m.CallTimeout { // no timer is that late: the process was stopped
		m.resumedAt = now
	}
	clear(m.actions) // so that old actions can be freed
	m.actions = m.actions[:0]
	in.apply(m, now)
	if c := m.inFlight[callHealth]; c != nil && now >= c.sent+c.timeout {
		m.healthReplied(now, errOverdue)
	}
	for _, e := range m.due(now) {
		m.advance(now, e)
	}
	if now >= m.unreachableAt() {
		m.unreachable()
	}
	m.endDoubt(now)
	m.dispatch(now)
	m.wakeAt = m.next()
	out := m.actions
	if cap(out) > 64 {
		m.actions = nil // a large one is rare; do not keep its memory
	}
	return out
}

// wake sets when e is advanced next.
func (m *machine) wake(e *elec, at time.Duration) {
	m.wakes[e.index] = at
	m.earliest = min(m.earliest, at)
}

// due returns the elections whose time has come to be advanced.
func (m *machine) due(now time.Duration) (due []*elec) {
	if now < m.earliest {
		return nil
	}
	m.earliest = never
	for i, at := range m.wakes {
		if now >= at {
			due = append(due, m.elections[i])
		} else {
			m.earliest = min(m.earliest, at)
		}
	}
	return due
}

// next returns when the machine must be stepped again if no input comes before.
func (m *machine) next() time.Duration {
	next := min(m.unreachableAt(), m.earliest)
	for k := range callKinds {
		if m.inFlight[k] == nil {
			next = min(next, m.callDueAt(k))
		}
	}
	if c := m.inFlight[callListen]; c != nil && !c.cancelled {
		next = min(next, c.restartAt)
	}
	if c := m.inFlight[callHealth]; c != nil && !m.unhealthy {
		next = min(next, c.sent+c.timeout)
	}
	return next
}

// each calls do for one election, or for all if one is nil.
func (m *machine) each(one *elec, do func(*elec)) {
	if one != nil {
		do(one)
		return
	}
	for _, e := range slices.Clone(m.elections) {
		do(e)
	}
}

func (m *machine) remove(e *elec) {
	last := len(m.elections) - 1
	m.elections[e.index], m.wakes[e.index] = m.elections[last], m.wakes[last]
	m.elections[e.index].index = e.index
	m.elections, m.wakes = m.elections[:last], m.wakes[:last]
	e.index = -1
	m.emit(action{kind: doRemoved, e: e})
}

func (m *machine) emit(a action) { m.actions = append(m.actions, a) }

// jitter shortens d by up to a fifth. The fraction is the same for all elections of one reply, so
// that they retry in one call.
func (m *machine) jitter(d time.Duration) time.Duration {
	return d - time.Duration(m.jitterFraction*float64(d/5))
}

// report publishes a state of e, if it is new. leader is nil unless kind is Elected.
func (m *machine) report(kind Kind, e *elec, leader *Candidate, term uint64, reason Reason, err error) {
	old := e.reported
	term = cmp.Or(term, old.term)
	first := old.reason == ""
	if !first && old.is(kind, leader, term) && !reason.newsAfter(old.reason) {
		return
	}
	if leader != nil && leader != &m.me {
		leader = new(*leader) // a copy: the caller's may change
	}
	s := &state{kind: kind, leader: leader, previous: old.last(), term: term, reason: reason, err: err}
	s.leading = kind == Elected && e.phase == phaseLeading
	e.reported = s
	m.emit(action{kind: doEvent, e: e, state: s})
	if kind == Elected {
		m.relisten = true
	}
}

// reportNotice publishes a notice. The state stays.
func (m *machine) reportNotice(e *elec, reason Reason, err error) {
	s := &state{kind: Notice, previous: e.reported.last(), term: e.reported.term, reason: reason, err: err}
	s.leading = e.phase == phaseLeading
	m.emit(action{kind: doEvent, e: e, state: s})
}
