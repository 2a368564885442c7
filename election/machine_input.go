package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

func (tick) apply(*machine, time.Duration) {}

func (in join) apply(m *machine, now time.Duration) {
	e := in.e
	e.index = int32(len(m.elections))
	m.elections, m.wakes = append(m.elections, e), append(m.wakes, never)
	e.reported = new(state)
	e.observed = m.unobserved
	e.readAt, e.confirmedAt, e.readyAt = now, -1, now-m.TTL
	e.leaving, e.paused = m.closing, m.paused
	m.relisten = true
	m.advance(now, e)
}

// apply makes all deadlines earlier, also those that follow from calls that are under way.
func (in clockJumped) apply(m *machine, now time.Duration) {
	for _, k := range []callKind{callAcquire, callRenew} {
		if c := m.inFlight[k]; c != nil {
			c.sent -= in.by
		}
	}
	m.each(nil, func(e *elec) {
		e.trustedUntil -= in.by
		m.advance(now, e)
	})
}

func (in campaign) apply(m *machine, now time.Duration) {
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

func (in pause) apply(m *machine, now time.Duration) {
	if in.e == nil {
		m.paused = in.on
	}
	m.announceSoon(now)
	m.each(in.e, func(e *elec) {
		e.paused = in.on
		if in.on {
			m.stepDown(now, e, ReasonPaused, backend.Released, nil)
		}
		m.advance(now, e)
	})
}

func (in resign) apply(m *machine, now time.Duration) {
	e := in.e
	if e.term != in.term {
		return // that leadership is over
	}
	m.retryRelease(now, e)
	if e.phase == phaseLeading {
		e.waitAfterRelease = m.TTL / 2 // so that others can lead
		m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	}
	m.advance(now, e)
}

func (in withdraw) apply(m *machine, now time.Duration) {
	e := in.e
	m.retryRelease(now, e)
	e.mode = modeNone
	m.announceSoon(now)
	m.stepDown(now, e, ReasonResigned, backend.Released, nil)
	if e.work == workCaller && e.phase.draining() {
		m.on(e, finished) // its caller has not begun the work, even if this process was just elected
	}
	m.advance(now, e)
}

func (in leave) apply(m *machine, now time.Duration) {
	if in.e == nil {
		m.closing = true
	}
	m.announceSoon(now)
	m.each(in.e, func(e *elec) {
		m.retryRelease(now, e)
		e.leaving = true
		m.stepDown(now, e, ReasonLeft, in.end, nil)
		if e.work == workCaller && e.phase.draining() {
			m.on(e, finished) // who calls Leave or Close has ended the work of its Campaign
		}
		m.advance(now, e)
	})
}

func (in returned) apply(m *machine, now time.Duration) {
	e := in.e
	leads := e.phase == phaseLeading
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

// waitAfterFunction returns how long this process does not bid after its function has returned: RenewEvery,
// doubled with each consecutive error. A leadership that lasted longer than the longest wait resets it.
func (m *machine) waitAfterFunction(now time.Duration, e *elec, err error) time.Duration {
	if err == nil || now-e.electedAt > maxWaitFactor*m.RenewEvery {
		e.functionErrors = 0
	}
	wait := m.RenewEvery << min(e.functionErrors, 5)
	if err != nil {
		e.functionErrors++
	}
	return wait
}
