package election

// A phase says where this process stands in one election. Together with the mode (does it
// campaign?) it is the diagram of the package documentation.
type phase uint8

const (
	// A candidate, or an observer.
	phaseFollowing phase = iota // nothing of ours is in the store
	phaseQueued                 // our bid stands in the store's queue
	phasePending                // the outcome of our bid is unknown: the lease may be ours

	phaseLeading // the lease is ours, and trusted

	// The leadership is over, and its function has not returned.
	phaseSteppingDown // by our own will: we renew the lease until the function returns
	phaseDeposed      // likewise, but the store refuses renewals
	phaseLost         // against our will: the lease is left alone until the deadline
	phaseStuck        // the function has not returned for StepDownTimeout: the lease expires
	phaseAbandoned    // … and has been released after it expired

	// Nothing runs any more, and the lease is ours in the store.
	phaseExpiring  // after a loss, or never led: released at the deadline
	phaseReleasing // in order: released now
)

// A trigger is what may move an election to another phase.
type trigger uint8

const (
	won         trigger = iota // a bid was granted, and this process leads
	wonUnusable                // a bid was granted, too late to lead or in a term that was used
	wonUnasked                 // a bid was granted after this process stopped campaigning
	refused                    // a bid was refused, and nothing is left of it
	enqueued                   // a bid was refused for now, and stands in the queue
	unknown                    // a bid has no outcome, or the store shows a leftover of ours
	steppedDown
	deposed  // an operator has ended the leadership
	lose     // a renewal was refused, or the deadline has passed
	finished // the function has returned, or there is none
	overdue  // the function has not returned for StepDownTimeout
	released // the store has confirmed that nothing of ours is left
)

// transitions has the phase that follows each phase and trigger. A trigger that is not
// listed changes nothing.
var transitions = map[phase]map[trigger]phase{
	phaseFollowing: bidding,
	phaseQueued:    bidding,
	phasePending:   bidding,
	phaseLeading: {
		steppedDown: phaseSteppingDown, deposed: phaseDeposed, lose: phaseLost, finished: phaseReleasing,
	},
	phaseSteppingDown: {
		deposed: phaseDeposed, lose: phaseLost, finished: phaseReleasing, overdue: phaseStuck,
	},
	phaseDeposed:   {finished: phaseReleasing, overdue: phaseStuck},
	phaseLost:      {finished: phaseExpiring, overdue: phaseStuck},
	phaseStuck:     {finished: phaseExpiring, released: phaseAbandoned},
	phaseAbandoned: {finished: phaseFollowing},
	phaseExpiring:  {released: phaseFollowing},
	phaseReleasing: {lose: phaseExpiring, released: phaseFollowing},
}

var bidding = map[trigger]phase{
	won: phaseLeading, wonUnusable: phaseExpiring, wonUnasked: phaseReleasing,
	refused: phaseFollowing, enqueued: phaseQueued, unknown: phasePending, released: phaseFollowing,
}

// on moves e to the phase that follows.
func (e *elec) on(t trigger) {
	if next, ok := transitions[e.phase][t]; ok {
		e.phase = next
	}
}

// bids reports whether a bid may be made.
func (p phase) bids() bool { return p <= phasePending }

// held reports whether the lease is ours in the store, as far as we know.
func (p phase) held() bool { return p >= phaseLeading && p != phaseAbandoned }

// draining reports whether the function of a leadership that is over has not returned.
func (p phase) draining() bool { return p >= phaseSteppingDown && p <= phaseAbandoned }

// renewed reports whether the lease is renewed.
func (p phase) renewed() bool { return p == phaseLeading || p == phaseSteppingDown }

// orderly reports whether we hold the lease by our own will, or did until it is released.
func (p phase) orderly() bool {
	switch p {
	case phaseLeading, phaseSteppingDown, phaseDeposed, phaseReleasing:
		return true
	}
	return false
}

// work is what runs while this process leads.
type work uint8

const (
	workNone     work = iota // nothing that is to be waited for
	workFunction             // a function, whose return is told
	workCaller               // the caller of Campaign or Try, who resigns
)
