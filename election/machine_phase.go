package election

// A phase says where this process stands in one election. docs/design/election.md has a table of the phases.
type phase uint8

const (
	// A candidate or an observer.
	phaseFollowing phase = iota // the store has nothing of this process
	phasePending                // a bid has no outcome (backend.Unknown): this process may hold the lease

	phaseLeading // this process holds the lease, and trusts it

	// The leadership is over, and its function has not returned.
	phaseSteppingDown // in order: the lease is renewed until the function returns
	phaseDeposed      // in order, but the store refuses renewals
	phaseLost         // after a loss: the lease is not touched before the deadline
	phaseStuck        // the function has not returned for StepDownTimeout: the lease expires
	phaseAbandoned    // the lease of a stuck function has expired and was released

	// Nothing runs, and the store still has the lease for this process.
	phaseAwaitingDeadline // after a loss or an unusable grant: released at the deadline
	phaseReleasing        // in order: released now
)

// A trigger is an event that may change the phase.
type trigger uint8

const (
	won         trigger = iota // a bid was granted, and this process leads
	wonUnusable                // a bid was granted, too late to lead or in a used term
	wonUnwanted                // a bid was granted after this process stopped campaigning
	notGranted                 // a bid was refused, and the store has nothing of it
	unanswered                 // a bid has no outcome
	foundOurs                  // the record names this process, which does not lead
	steppedDown                // this process steps down in order
	deposed                    // an operator has ended the leadership
	lost                       // a renewal was refused, or the deadline has passed
	finished                   // the function has returned, or there is none
	overdue                    // the function has not returned for StepDownTimeout
	released                   // the store has confirmed that it has nothing of this process
)

// transitions has the next phase for each phase and trigger. A trigger that is not listed cannot come. The
// answer to a renewal may come after the leadership was lost, so lost and deposed may come twice.
var transitions = map[phase]map[trigger]phase{
	phaseFollowing: bidding,
	phasePending:   bidding,
	phaseLeading: {
		steppedDown: phaseSteppingDown, deposed: phaseDeposed, lost: phaseLost, finished: phaseReleasing,
	},
	phaseSteppingDown: {
		deposed: phaseDeposed, lost: phaseLost, finished: phaseReleasing, overdue: phaseStuck,
	},
	phaseDeposed: {
		finished: phaseReleasing, overdue: phaseStuck, lost: phaseDeposed, deposed: phaseDeposed,
	},
	phaseLost: {
		finished: phaseAwaitingDeadline, overdue: phaseStuck, lost: phaseLost, deposed: phaseLost,
	},
	phaseStuck: {
		finished: phaseAwaitingDeadline, released: phaseAbandoned, lost: phaseStuck, deposed: phaseStuck,
	},
	phaseAbandoned: {
		finished: phaseFollowing,
	},
	phaseAwaitingDeadline: {
		released: phaseFollowing, lost: phaseAwaitingDeadline, deposed: phaseAwaitingDeadline,
	},
	phaseReleasing: {
		released: phaseFollowing, lost: phaseAwaitingDeadline, deposed: phaseReleasing,
	},
}

var bidding = map[trigger]phase{
	won: phaseLeading, wonUnusable: phaseAwaitingDeadline, wonUnwanted: phaseReleasing,
	notGranted: phaseFollowing, released: phaseFollowing,
	unanswered: phasePending, foundOurs: phasePending,
}

// on moves e to the phase that follows the trigger.
func (m *machine) on(e *elec, t trigger) {
	next, ok := transitions[e.phase][t]
	switch {
	case ok:
		e.phase = next
	case m.impossible != nil:
		m.impossible(e.phase, t)
	}
}

// bids reports whether this process may bid.
func (p phase) bids() bool { return p == phaseFollowing || p == phasePending }

// held reports whether a bid was granted, and the store may still have the lease.
func (p phase) held() bool { return !p.bids() && p != phaseAbandoned }

// idle reports whether the store has nothing of this process, and no call can change that.
func (e *elec) idle() bool { return e.phase == phaseFollowing && !e.leaseCallUnderWay }

// draining reports whether the leadership is over and its function has not returned.
func (p phase) draining() bool {
	switch p {
	case phaseSteppingDown, phaseDeposed, phaseLost, phaseStuck, phaseAbandoned:
		return true
	}
	return false
}

// renewed reports whether this process renews the lease.
func (p phase) renewed() bool { return p == phaseLeading || p == phaseSteppingDown }

// orderly reports whether the lease was not lost: this process leads, or steps down in order.
func (p phase) orderly() bool {
	return p.renewed() || p == phaseDeposed || p == phaseReleasing
}

// work is what runs while this process leads.
type work uint8

const (
	workNone     work = iota // nothing that a step-down waits for
	workFunction             // a function; the input returned reports its return
	workCaller               // the caller of Campaign or Try, who must resign
)
