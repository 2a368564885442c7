package election

import (
	"errors"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

func (r reply) apply(m *machine, now time.Duration) {
	c := r.call
	m.inFlight[c.kind] = nil
	m.jitterFraction = m.random.Float64()
	m.noteOutcome(now, r)
	switch c.kind {
	case callAcquire:
		m.acquireReplied(now, r)
	case callRenew:
		m.renewReplied(now, r)
	case callRelease:
		m.releaseReplied(now, r)
	case callObserve:
		m.observeReplied(now, r)
	case callRequest:
		if errors.Is(r.err, backend.ErrStale) {
			m.retryAt[callRequest] = 0 // the term is over
		}
	case callAnnounce:
		// Counted from the answer: processes that have delayed each other do not meet again.
		m.announceAt = now + m.TTL
		if c.names != m.announcement() {
			m.announceSoon(now)
		}
	case callMembers:
		m.membersReplied(now, r)
	case callHealth:
		m.healthReplied(now, r.err)
	case callListen:
		m.listenAt = now
		if r.err == nil {
			m.handleNotification(now)
		}
	}
}

// answeredByStore reports whether the store carried out the call, or answered that a request came too late.
func (r *reply) answeredByStore() bool {
	return r.err == nil || r.call.kind == callRequest && errors.Is(r.err, backend.ErrStale)
}

// decided reports whether any item of the call has an outcome.
func (r *reply) decided() bool {
	return slices.ContainsFunc(r.answers, func(a backend.Answer) bool { return a.Outcome != backend.Unknown })
}

// noteOutcome records whether the store answered, and when to repeat a failed call.
func (m *machine) noteOutcome(now time.Duration, r reply) {
	c, answered := r.call, r.answeredByStore()
	m.noteOutage(now, &r)
	switch {
	case answered || r.decided():
		m.failures[c.kind], m.retryAt[c.kind] = 0, 0
	case !c.cancelled:
		m.callFailed(now, c.kind, r.err)
	}

	switch {
	case c.kind == callHealth || c.cancelled: // says nothing about the store
	case !answered:
		m.lastContactErr = r.err
		if c.kind == callObserve {
			m.unreadableSince = min(m.unreadableSince, c.sent)
		}
	case c.kind != callListen: // the reading after it says more
		m.lastContact, m.reached = now, true
		if c.kind == callObserve {
			m.unreadableSince = never
		}
		if m.unreadableSince == never { // otherwise other leaders are still unknown, though writes work
			m.unreachableReported, m.lastContactErr = false, nil
		}
	}
}

func (m *machine) acquireReplied(now time.Duration, r reply) {
	for i, e := range r.call.elecs {
		a := answer(r, i)
		e.leaseCallUnderWay = false
		m.bidAnswered(now, r.call.sent, e, &a, &r.call.bids[i])
		m.advance(now, e)
	}
}

func (m *machine) renewReplied(now time.Duration, r reply) {
	if r.err == nil && len(r.call.elecs) == len(m.elections) {
		m.unreadableSince = never // this process leads every election: there is nothing to read
	}
	for i, e := range r.call.elecs {
		a := answer(r, i)
		e.leaseCallUnderWay = false
		m.renewalAnswered(now, r.call.sent, e, &a, r.call.held[i].Term)
		m.advance(now, e)
	}
}

// releaseReplied handles the end of a Release. A failed one does not say which leases it released.
// To keep one lease that cannot be released from delaying the others, the next call has half as
// many; each call that succeeds doubles the number.
func (m *machine) releaseReplied(now time.Duration, r reply) {
	switch {
	case r.err != nil:
		m.releaseBatch = max(1, len(r.call.elecs)/2)
	case 2*m.releaseBatch > len(m.elections):
		m.releaseBatch = 0
	default:
		m.releaseBatch *= 2
	}
	for _, e := range r.call.elecs {
		e.leaseCallUnderWay = false
		if r.err == nil {
			m.released(now, e)
		}
		m.advance(now, e)
	}
}

// answer returns the answer to item i. Its outcome is Unknown if the reply has none.
func answer(r reply, i int) backend.Answer {
	a := backend.Answer{}
	if i < len(r.answers) {
		a = r.answers[i]
	}
	if a.Outcome == backend.Unknown && a.Err == nil {
		a.Err = r.err
	}
	return a
}

func (m *machine) observeReplied(now time.Duration, r reply) {
	c := r.call
	if m.closing { // elections may have left during the call, and the others need no reading
		return
	}
	if r.err != nil {
		for _, e := range c.elecs {
			e.observing = false
			e.readAt = max(m.retryAt[callObserve], now+time.Millisecond)
			m.reportDenied(e, callObserve, r.err)
			m.endTry(e, r.err)
			m.advance(now, e)
		}
		return
	}

	byName := make(map[string]*backend.Lease, len(r.changed))
	for i := range r.changed {
		byName[r.changed[i].Election] = &r.changed[i]
	}
	changed := false
	for i, e := range c.elecs {
		e.observing = false
		m.denialOver(e, callObserve)
		l := byName[e.name]
		changed = changed || l != nil && l.Differs(c.leases[i])
		if l != nil || c.leases[i].Version == e.observed.Version {
			m.observe(now, e, l, c.sent) // otherwise the observation changed during this call
		}
		if e.readAt == never {
			m.nextRead(now, e)
		}
		m.advance(now, e)
	}
	m.notificationRead(now, changed)
}

var errOverdue = errors.New("the health check has not returned in time")

func (m *machine) healthReplied(now time.Duration, err error) {
	m.healthAt = now + m.RenewEvery
	first, unhealthy := !m.healthKnown, err != nil
	changed := unhealthy != m.unhealthy
	m.healthKnown, m.unhealthy = true, unhealthy
	if changed {
		m.emit(action{kind: doLogHealth, err: err})
	}
	if !changed && !first {
		return
	}

	m.each(nil, func(e *elec) {
		if unhealthy {
			m.stepDown(now, e, ReasonHealth, backend.Released, err)
		} else {
			m.announceSoon(now) // not when it fails: a check that fails once changes no announcement
		}
		m.advance(now, e)
	})
}

// callFailed decides when to repeat a call that has failed.
func (m *machine) callFailed(now time.Duration, k callKind, err error) {
	if k == callRenew || k == callAcquire || k == callHealth {
		return // each election, and the health check, has a time of its own for the next attempt
	}
	m.failures[k]++
	wait := m.backoff(m.failures[k])
	denied := backend.Class(err) != backend.ErrUnavailable // an operator must act
	switch {
	case denied && (k == callObserve || k == callRelease):
		wait = max(wait, m.jitter(m.RenewEvery)) // as usual: somebody may wait for what it begins or ends
	case denied:
		wait = max(wait, m.jitter(m.TTL))
	}
	m.retryAt[k] = now + wait
}

// backoff returns how long to wait after this many consecutive failures.
func (m *machine) backoff(failures int) time.Duration {
	return m.jitter(min(m.shortWait()<<min(failures, 10), m.RenewEvery))
}
