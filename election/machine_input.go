package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// clockJumped makes all deadlines earlier: the host may have been suspended for by.
func (m *machine) clockJumped(now, by time.Duration) {
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

// campaign begins a campaign.
func (m *machine) campaign(now time.Duration, in campaign) {
	e := in.e
	e.mode, e.work = in.mode, in.work
	if in.mode == modeTry {
		e.readSinceTry = false // a Try needs a reading that is sent later than this instant
		e.tryBegan = now + 1
		e.readAt = e.tryBegan
	}
	m.announceSoon(now)
	m.advance(now, e)
}

// pause pauses or resumes one election or all.
func (m *machine) pause(now time.Duration, in pause) {
	m.paused = m.paused && in.e != nil || in.on && in.e == nil
	m.announceSoon(now)
	m.each(in.e, func(e *elec) {
		if e.paused = in.on; in.on {
			m.stepDown(now, e, ReasonPaused, backend.Released, nil)
		}
		m.advance(now, e)
	})
}

// resign ends a leadership. After it this process does not bid for half a TTL, so that others can lead.
func (m *machine) resign(now time.Duration, in resign) {
	e := in.e
	m.retryRelease(now, e)
	if e.phase == phaseLeading && e.term == in.term {
		e.waitAfterRelease = m.TTL / 2
		m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	}
	m.advance(now, e)
}

// withdraw ends a campaign and its leadership.
func (m *machine) withdraw(now time.Duration, in withdraw) {
	e := in.e
	m.retryRelease(now, e)
	e.mode = modeNone
	m.announceSoon(now)
	m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	if in.done && e.phase.draining() {
		m.on(e, finished)
	}
	m.advance(now, e)
}

// leave makes this process leave one election or all.
func (m *machine) leave(now time.Duration, in leave) {
	m.closing = m.closing || in.e == nil
	m.announceSoon(now)
	m.each(in.e, func(e *elec) {
		m.retryRelease(now, e)
		e.leaving = true
		m.stepDown(now, e, ReasonLeft, in.end, nil)
		if e.work == workCaller && e.phase.draining() { // Leave and Close say that the caller of Campaign has ended its work
			m.on(e, finished)
		}
		m.advance(now, e)
	})
}

// returned handles the return of a lead function.
func (m *machine) returned(now time.Duration, in returned) {
	e := in.e
	leads := e.phase == phaseLeading && e.work != workNone
	if e.term != in.term || !leads && !e.phase.draining() {
		return
	}
	m.retryRelease(now, e)
	if leads {
		e.waitAfterRelease = m.waitAfterFunction(now, e, in.err) // so that others can lead
		e.end = backend.Released
		m.endLeadership(now, e, finished, in.reason, in.err)
	} else {
		m.on(e, finished)
	}
	m.advance(now, e)
}

// maxWaitFactor is the longest wait after a failing function, in units of RenewEvery.
const maxWaitFactor = 32

// waitAfterFunction returns how long this process does not bid after its function has returned:
// RenewEvery, doubled with each consecutive error. A leadership that lasted longer than the longest
// wait resets it.
func (m *machine) waitAfterFunction(now time.Duration, e *elec, err error) time.Duration {
	if err == nil || now-e.electedAt > maxWaitFactor*m.RenewEvery {
		e.functionErrors = 0
	}
	wait := m.RenewEvery << min(e.functionErrors, 5)
	if err != nil {
		e.functionErrors = min(e.functionErrors+1, maxCount)
	}
	return wait
}
