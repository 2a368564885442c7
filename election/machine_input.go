package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// stepped: the machine may have been suspended. What we hold lasts so much less.
func (m *machine) stepped(now, by time.Duration) {
	for _, k := range []callKind{callAcquire, callRenew} {
		if c := m.inFlight[k]; c != nil {
			c.sent -= by
		}
	}
	m.each(nil, func(e *elec) {
		e.trustedUntil -= by
		m.advance(now, e)
	})
}

// campaign begins to campaign.
func (m *machine) campaign(now time.Duration, in campaign) {
	e := in.e
	e.mode, e.work = in.mode, in.work
	if in.mode == modeTry {
		e.readSinceTry = false // an attempt judges by a fresh reading, not by one that was sent at this instant, but before
		e.tryBegan = now + 1
		e.readAt = e.tryBegan
	}
	m.advance(now, e)
}

// suspend pauses or resumes one election, or all.
func (m *machine) suspend(now time.Duration, in suspend) {
	m.paused = m.paused && in.e != nil || in.on && in.e == nil
	m.each(in.e, func(e *elec) {
		if e.paused = in.on; in.on {
			m.stepDown(now, e, ReasonPaused, backend.Released, nil)
		}
		m.advance(now, e)
	})
}

// resign ends a leadership, and lets others have the next.
func (m *machine) resign(now time.Duration, in resign) {
	e := in.e
	m.retryRelease(now, e)
	if e.phase == phaseLeading && e.term == in.term {
		e.pauseAfterRelease = m.TTL / 2
		m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	}
	m.advance(now, e)
}

// withdraw ends a campaign and its leadership.
func (m *machine) withdraw(now time.Duration, in withdraw) {
	e := in.e
	m.retryRelease(now, e)
	e.mode = modeNone
	m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	if in.done {
		e.on(finished)
	}
	m.advance(now, e)
}

// leave ends all that this process does in one election, or in all.
func (m *machine) leave(now time.Duration, in leave) {
	m.closing = m.closing || in.e == nil
	m.each(in.e, func(e *elec) {
		m.retryRelease(now, e)
		e.leaving = true
		m.stepDown(now, e, ReasonLeft, in.end, nil)
		if e.work == workCaller { // the caller of Campaign has now said that its work is over
			e.on(finished)
		}
		m.advance(now, e)
	})
}

// returned: a lead function has come back.
func (m *machine) returned(now time.Duration, in returned) {
	e := in.e
	leads := e.phase == phaseLeading && e.work != workNone
	if e.term != in.term || !leads && !e.phase.draining() {
		return
	}
	m.retryRelease(now, e)
	if leads {
		e.pauseAfterRelease = m.pauseAfter(now, e, in.err) // let somebody else have it
		e.end = backend.Released
		m.endLeadership(now, e, finished, in.reason, in.err)
	} else {
		e.on(finished)
	}
	m.advance(now, e)
}

// mostPauses is the longest pause after a function that fails, in RenewEvery.
const maxPauseFactor = 32

// pauseAfter is how long this process stays out after its function has returned: twice as
// long with each error in a row. A leadership that lasted longer than the longest pause ends
// the row.
func (m *machine) pauseAfter(now time.Duration, e *elec, err error) time.Duration {
	if err == nil || now-e.electedAt > maxPauseFactor*m.RenewEvery {
		e.functionErrors = 0
	}
	pause := m.RenewEvery << min(e.functionErrors, 5)
	if err != nil {
		e.functionErrors = min(e.functionErrors+1, maxCount)
	}
	return pause
}
