package election

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// advance decides the next action for e from its state alone, and sets its timer. It runs after
// every change of e.
func (m *machine) advance(now time.Duration, e *elec) {
	if e.index < 0 {
		return
	}
	if e.phase == phaseLeading && now >= e.trustedUntil {
		m.deadlinePassed(now, e)
	}

	m.noteReady(now, e)
	wake := never
	if !m.mayBeOurs(now, e) && !e.leaving {
		wake = m.callAt(now, e.readAt, callObserve, e)
	}
	switch e.phase {
	case phaseFollowing:
		wake = min(wake, m.follow(now, e))
	case phasePending:
		wake = min(wake, m.awaitBid(now, e))
	case phaseLeading:
		wake = min(e.trustedUntil, m.renewIfDue(now, e))
	case phaseSteppingDown, phaseDeposed, phaseLost:
		wake = min(wake, m.awaitFunction(now, e))
	case phaseStuck:
		wake = min(wake, m.awaitExpiry(now, e))
	case phaseAbandoned: // until the function returns
	case phaseAwaitingDeadline, phaseReleasing:
		wake = min(wake, m.releaseOrGiveUp(now, e))
	}
	if e.index >= 0 {
		m.wake(e, wake)
	}
}

// callAt queues a call for e if it is due, and returns when to advance again.
func (m *machine) callAt(now, due time.Duration, k callKind, e *elec) time.Duration {
	if now < due {
		return due
	}
	m.enqueue(k, e)
	return never
}

// The functions for phases return when to advance again.

// follow bids if it is time to, and removes an election that this process leaves.
func (m *machine) follow(now time.Duration, e *elec) time.Duration {
	if e.leaving && !e.leaseCallUnderWay && (!e.observing || m.closing) {
		m.remove(e)
		return never
	}
	return m.bidIfDue(now, e)
}

// awaitBid bids again if it is time to. If this process may no longer bid, it withdraws what may still be
// granted.
func (m *machine) awaitBid(now time.Duration, e *elec) time.Duration {
	mayBid := m.isCandidate(e) && now >= m.holdBackUntil(e)
	if !mayBid {
		return m.releaseOrGiveUp(now, e)
	}
	return m.bidIfDue(now, e)
}

func (m *machine) bidIfDue(now time.Duration, e *elec) time.Duration {
	if e.mode == modeTry && !(e.readSinceTry && m.healthKnown) { // needs a reading first
		return never
	}

	bidAt := m.bidAt(e)
	if now < bidAt && !e.leaseCallUnderWay {
		m.endTry(e, nil) // a Try does not wait
	}
	return m.callAt(now, bidAt, callAcquire, e)
}

// awaitFunction waits for the function of a leadership that is over, and renews the lease meanwhile if it was
// not lost.
func (m *machine) awaitFunction(now time.Duration, e *elec) time.Duration {
	if now >= e.stuckAt {
		m.on(e, overdue)
		e.end = backend.Failed // the lease expires; the record shall show a failure
		m.reportNotice(e, ReasonStuck, nil)
		return m.awaitExpiry(now, e)
	}
	if e.phase == phaseSteppingDown && now < e.trustedUntil {
		return min(e.stuckAt, e.trustedUntil, m.renewIfDue(now, e))
	}
	return e.stuckAt
}

// awaitExpiry releases the lease of a stuck function when it has expired: a session that other leases keep
// alive would keep it forever.
func (m *machine) awaitExpiry(now time.Duration, e *elec) time.Duration {
	return m.callAt(now, e.releaseAt(), callRelease, e)
}

// releaseOrGiveUp releases the lease, or withdraws a bid, until the lease has expired.
func (m *machine) releaseOrGiveUp(now time.Duration, e *elec) time.Duration {
	m.endTry(e, nil) // a Try does not wait
	if at := m.callAt(now, e.releaseAt(), callRelease, e); at != never {
		return at
	}
	if now < e.expiresAt {
		return e.expiresAt
	}
	m.expiredUnreleased(e)
	return never
}

// expiredUnreleased ends the wait for a release: the lease has expired before the store confirmed
// the release, so others can lead. The release is still repeated, to clear the record, unless the
// manager closes. A bid that is under way may still be granted: its answer is awaited.
func (m *machine) expiredUnreleased(e *elec) {
	if c := m.inFlight[callAcquire]; c != nil && slices.Contains(c.elecs, e) {
		return
	}
	m.emit(action{kind: doExpired, e: e, err: m.lastContactErr})
	if m.closing {
		m.remove(e)
	}
}

// retryRelease repeats a release at once if the program asks for it after the lease has expired, so
// that the record is cleared. The release is then awaited for CallTimeout, after which doExpired tells
// the caller again.
func (m *machine) retryRelease(now time.Duration, e *elec) {
	if (e.phase.held() || e.phase == phasePending) && now >= e.expiresAt {
		e.expiresAt = now + m.CallTimeout
		m.retryAt[callRelease] = 0
	}
}

// mayBeOurs reports whether this process leads, or led and the deadline has not passed: then no reading of
// the lease is used. A pending bid does not count.
func (m *machine) mayBeOurs(now time.Duration, e *elec) bool {
	return e.phase == phaseLeading || e.phase.held() && now < e.trustedUntil
}

// isCandidate reports whether this process campaigns for e and nothing forbids it. An election that
// has moved to another store has no candidates here.
func (m *machine) isCandidate(e *elec) bool {
	wants := e.mode != modeNone && !e.paused && !e.leaving
	return wants && e.observed.MovedTo == "" && m.healthKnown && !m.unhealthy
}

// bidAt returns when e may bid; never if something must change first.
func (m *machine) bidAt(e *elec) time.Duration {
	if !m.isCandidate(e) || !e.hasObserved {
		return never
	}
	l := e.observed
	if l.ObserveFor < 0 { // backend.ExpiresInStore
		return never
	}
	free := e.unchangedSince + l.ObserveFor // of our lease, too: a failover may have lost a later grant
	if e.mode != modeTry && l.Request.Nonce != m.me.Nonce {
		free += e.turn
	}
	return max(e.retryBidAt, max(free, m.holdBackUntil(e), e.readySince)+m.deferral(e))
}

// drawTurn returns how long this process waits for other candidates once the lease is free, or would be. If
// one of them bids first, the news of its grant comes before this process's turn, and it does not bid. How
// many candidates there are is not known. So whoever was passed over once at most, such as the last leader
// but one, does not wait, and the others wait the longer the more often they were: docs/design/election.md,
// "A fleet". Elections that change together have one turn: the first of a hundred turns would come at once.
func (m *machine) drawTurn(e *elec) time.Duration {
	if e.passedOver < 2 {
		return 0
	}
	most := min(time.Millisecond<<min(2*e.passedOver-2, 16), m.RenewEvery/8)
	return time.Duration(m.jitterFraction * float64(most))
}

// holdBackUntil returns until when e does not bid even if the lease is free: after a resignation,
// during FailoverDelay, during IncumbentGrace for another candidate, or while only a nominee bids.
func (m *machine) holdBackUntil(e *elec) time.Duration {
	l, at := e.observed, e.noBidBefore
	failed := !l.Vacant() || l.End == backend.Failed // whoever holds the lease when it has expired has failed
	if failed && l.Term > 0 {
		hold := m.FailoverDelay
		if lastLeader(l) != m.me.ID {
			hold += m.IncumbentGrace
		}
		if hold > 0 {
			expired := e.unchangedSince + max(l.ObserveFor, 0) // certainly
			at = max(at, expired+hold)
		}
	}
	if awaitsNominee(l) && l.Request.Nonce != m.me.Nonce {
		at = max(at, e.unchangedSince+m.TTL)
	}
	return at
}

// lastLeader returns the id of the holder, or of the last one.
func lastLeader(l *backend.Lease) string { return cmp.Or(l.Holder.ID, l.LastID) }

// awaitsNominee reports whether the last leader has stepped down for a nominee, which the request names.
func awaitsNominee(l *backend.Lease) bool {
	return l.Vacant() && l.Request.Kind == backend.Accept && l.Request.Term == l.Term
}

// bidGranted handles the grant of a bid that was sent at sent and asked for a term above minTerm.
// This grant, or a later one of another process, may have been observed before its answer came.
func (m *machine) bidGranted(now, sent time.Duration, e *elec, a *backend.Answer, minTerm uint64) {
	fresh := a.Term > minTerm && a.Term >= e.highestTerm
	e.term, e.end, e.lastErr = a.Term, backend.Failed, nil
	e.highestTerm = max(e.highestTerm, a.Term)
	e.trustedUntil, e.expiresAt = sent+a.ValidFor-m.ClockMargin, sent+a.ValidFor
	e.renewAt = m.nextGridTick(sent)
	switch {
	case !fresh: // do not lead in a used term
		m.on(e, wonUnusable)
		if a.Term <= minTerm { // otherwise a later grant, perhaps to this process, was observed first
			m.reportNotice(e, ReasonWentBack, nil)
		}
		m.retryLater(now, e, nil)
	case !m.isCandidate(e): // no longer a candidate: no work has begun, so there is nothing to wait for
		m.on(e, wonUnwanted)
		e.end = backend.Released
	case now < e.trustedUntil:
		m.on(e, won)
		e.electedAt, e.failures, e.passedOver = now, 0, 0
		reason := ReasonElected
		if req := &e.observed.Request; req.Kind == backend.Accept && req.Nonce == m.me.Nonce {
			reason = ReasonNominated
		}
		if e.mode != modeAlways {
			e.mode = modeNone
		}
		m.emit(action{kind: doLead, e: e, term: e.term, until: e.trustedUntil})
		m.report(Elected, e, &m.me, e.term, reason, nil)
	default: // the answer came too late, or the store's session ends soon: nobody has led, or failed
		m.on(e, wonUnusable)
		e.end = backend.Released
		m.retryLater(now, e, nil)
	}
	m.dropObserved(now, e)
}

// dropObserved drops the observation when the lease becomes this process's, or no longer is: an
// observation must then begin again.
func (m *machine) dropObserved(now time.Duration, e *elec) {
	e.observed = m.unobserved
	e.hasObserved, e.tooEarly, e.readAt, e.confirmedAt = false, 0, now, now
	m.relisten = true
}

// renewIfDue queues a renewal of e if it is due, and returns when to advance again.
func (m *machine) renewIfDue(now time.Duration, e *elec) time.Duration {
	if e.leaseCallUnderWay {
		return never
	}
	return m.callAt(now, e.renewAt, callRenew, e)
}

// nextGridTick returns the first tick of the renewal grid after t. All leases share the grid, so
// that one call renews them all.
func (m *machine) nextGridTick(t time.Duration) time.Duration {
	since := (t - m.gridOffset) % m.RenewEvery
	if since < 0 {
		since += m.RenewEvery
	}
	return t - since + m.RenewEvery
}

// renewalAnswered handles the answer to a renewal of term that was sent at sent.
func (m *machine) renewalAnswered(now, sent time.Duration, e *elec, a *backend.Answer, term uint64) {
	if !e.phase.held() || e.term != term {
		return
	}
	if e.phase == phaseLeading && now >= e.trustedUntil { // too late: a lost lease is never trusted again
		m.deadlinePassed(now, e)
		return
	}
	switch a.Outcome {
	case backend.Granted:
		m.denialOver(e, callRenew)
		e.lastErr, e.failures = nil, 0
		e.renewAt = m.nextGridTick(sent)
		e.expiresAt = max(e.expiresAt, sent+a.ValidFor)
		if e.phase.orderly() {
			e.trustedUntil = max(e.trustedUntil, sent+a.ValidFor-m.ClockMargin)
		}
		if e.phase == phaseLeading {
			m.emit(action{kind: doTrust, e: e, term: e.term, until: e.trustedUntil})
		}
		if req := &a.Request; req.Kind == backend.Accept && req.Term == e.term && req.Nonce != m.me.Nonce {
			m.stepDown(now, e, ReasonNominated, backend.Released, nil)
		}
	case backend.Refused:
		m.denialOver(e, callRenew)
		asked := a.Request.Kind == backend.Depose && a.Request.Term == e.term
		if asked && a.Holder.Nonce == m.me.Nonce {
			m.depose(now, e)
		} else {
			m.lose(now, e, ReasonRefused, a.Err)
		}
	default:
		m.reportDenied(e, callRenew, a.Err)
		e.lastErr = a.Err
		e.failures++
		wait := min(m.backoff(int(e.failures)), (e.trustedUntil-now)/4) // several before the deadline
		e.renewAt = now + max(wait, time.Millisecond)
	}
}

// lose ends e's leadership after a failure. The lease is released after the deadline.
func (m *machine) lose(now time.Duration, e *elec, reason Reason, err error) {
	e.end = backend.Failed
	if e.phase != phaseLeading {
		m.on(e, lost)
		return
	}
	m.endLeadership(now, e, lost, reason, err)
	e.noBidBefore = max(e.noBidBefore, now+m.FailoverDelay)
}

// stepDown ends e's leadership, if there is one, in order: Leading is false, the function's context is
// cancelled, the function returns, the lease is released.
func (m *machine) stepDown(now time.Duration, e *elec, reason Reason, end backend.End, err error) {
	if e.phase == phaseLeading {
		e.end = end
		m.endLeadership(now, e, steppedDown, reason, err)
	}
}

// depose ends e's leadership in order, as an operator has asked. The store refuses renewals.
func (m *machine) depose(now time.Duration, e *elec) {
	e.waitAfterRelease = m.TTL
	e.end = backend.Deposed
	if e.phase == phaseLeading {
		m.endLeadership(now, e, deposed, ReasonDeposed, nil)
	} else {
		m.on(e, deposed)
	}
}

// endLeadership ends e's leadership. t is steppedDown, deposed, lost or finished.
func (m *machine) endLeadership(now time.Duration, e *elec, t trigger, reason Reason, err error) {
	m.on(e, t)
	if e.work == workNone {
		m.on(e, finished)
	}
	e.stuckAt = now + m.StepDownTimeout
	m.emit(action{kind: doEnd, e: e, term: e.term, reason: reason, err: err})
	m.report(Vacant, e, nil, 0, reason, err)
}

// released handles the confirmation that the store has nothing of this process.
func (m *machine) released(now time.Duration, e *elec) {
	e.noBidBefore, e.waitAfterRelease = max(e.noBidBefore, now+e.waitAfterRelease), 0
	if e.phase.held() {
		m.dropObserved(now, e)
	}
	e.readAt = now // a bid may have been granted after all; if not, the observation continues
	m.on(e, released)
}

func (m *machine) endTry(e *elec, err error) {
	if e.mode == modeTry {
		e.mode = modeNone
		m.emit(action{kind: doTryEnded, e: e, err: err})
	}
}

func (m *machine) deadlinePassed(now time.Duration, e *elec) {
	if e.lastErr == nil || m.resumedAt >= e.trustedUntil {
		m.lose(now, e, ReasonDeadline, nil) // the process was stopped, and continued too late
	} else {
		m.lose(now, e, storeReason(e.lastErr), e.lastErr)
	}
}
