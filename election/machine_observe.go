package election

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// observe handles the store's answer about a lease of another process. The call was sent at sent,
// and now is not before its receipt. A nil l means unchanged.
func (m *machine) observe(now time.Duration, e *elec, l *backend.Lease, sent time.Duration) {
	if m.mayBeOurs(now, e) {
		return // the answer to a bid came first
	}
	if l != nil { // limit forged durations
		l.TTL, l.Renew, l.ObserveFor = min(l.TTL, maxDuration), min(l.Renew, maxDuration), min(l.ObserveFor, maxDuration)
	}
	if l != nil && l.Term < e.highestTerm && sent < e.confirmedAt {
		return // a newer answer has overtaken this one
	}
	renewed := false
	switch {
	case !e.hasObserved, l != nil && !e.observed.Unchanged(*l):
		if l == nil {
			e.readAt = now + m.RenewEvery // a store must answer a first reading
			return
		}
		m.relisten = m.relisten || !e.hasObserved
		renewed = e.hasObserved && l.Term == e.observed.Term
		m.checkSameID(e, l, renewed)
		if e.hasObserved && l.Term < e.highestTerm && l.Term != e.observed.Term {
			m.reportNotice(e, ReasonWentBack, nil)
		}
		elected := !l.Vacant() && l.Term != e.observed.Term
		if elected && e.hasObserved && m.isCandidate(e) {
			e.passedOver = min(e.passedOver+1, maxCount)
		}
		if elected || !e.hasObserved || l.Vacant() != e.observed.Vacant() {
			e.turn = m.drawTurn(e)
		}
		m.setObserved(e, l)
		if e.futile && l.Vacant() { // whoever kept the bid out has gone
			e.futile, e.retryBidAt, e.failures = false, now, 0
		}
		e.unchangedSince, e.hasObserved, e.tooEarly = now, true, 0
		e.renewalDue = 0
		if l.Term <= backend.MaxTerm {
			e.highestTerm = max(e.highestTerm, l.Term)
		}
	case l != nil: // not renewed, so the observation continues; the request, the age or the holder may have changed
		m.setObserved(e, l)
		fallthrough
	default:
		if now >= e.renewalDue { // otherwise a notification was the reason for this reading
			e.tooEarly = min(e.tooEarly+1, maxCount)
		}
		m.checkSameIDInSession(now, e)
	}
	e.confirmedAt = now
	m.noteDoubt(now, e)
	m.nextRead(now, e)
	if e.readSinceTry = sent >= e.tryBegan; e.mode == modeTry && !e.readSinceTry { // sent before the Try began
		e.readAt = max(now, e.tryBegan)
	}
	m.reportObserved(e, sent)

	switch {
	case e.observed.Holder.Nonce == m.me.Nonce && e.observed.ObserveFor == 0 && e.phase == phaseFollowing && !e.leaseCallUnderWay:
		m.on(e, foundOurs) // advance then bids or releases
	case m.nominated(e):
		m.enqueue(callRequest, e)
	}
}

// nominated reports whether this process is nominated and can accept. A Try cannot: it ends before
// the holder has stepped down.
func (m *machine) nominated(e *elec) bool {
	req := &e.observed.Request
	return req.Kind == backend.Nominate && req.Term == e.observed.Term && req.ID == m.me.ID && m.isCandidate(e) && e.mode != modeTry
}

// setObserved stores an observation.
func (m *machine) setObserved(e *elec, l *backend.Lease) {
	cleanUnlessSeen(l, e.observed)
	if e.observed == m.unobserved {
		e.observed = new(backend.Lease)
	}
	*e.observed = *l
}

// cleanUnlessSeen makes text from the store harmless, unless it is unchanged since seen.
func cleanUnlessSeen(l, seen *backend.Lease) {
	if l.Holder != seen.Holder || l.Request != seen.Request || l.LastID != seen.LastID || l.End != seen.End || l.MovedTo != seen.MovedTo || l.MovedFrom != seen.MovedFrom || l.TTL < 0 || l.Renew < 0 {
		*l = clean.Lease(*l)
	}
}

// reportObserved reports the observed leader. The reading was sent at sent.
func (m *machine) reportObserved(e *elec, sent time.Duration) {
	l := e.observed
	switch {
	case l.Term < e.highestTerm, l.Term > backend.MaxTerm:
		m.report(Unknown, e, nil, 0, ReasonWentBack, nil) // never report an older term, or a forged one
	case l.Holder.Nonce == m.me.Nonce:
		// The record names this process, which does not lead.
		m.report(Vacant, e, nil, l.Term, ReasonExpired, nil)
	case !l.Vacant() && l.ObserveFor >= 0 && l.TTL > 0 && sent >= e.unchangedSince+max(l.TTL, l.ObserveFor):
		m.report(Vacant, e, nil, l.Term, ReasonExpired, nil)
	case !l.Vacant():
		m.report(Elected, e, &l.Holder, l.Term, ReasonElected, nil)
	case l.MovedTo != "":
		m.report(Vacant, e, nil, l.Term, ReasonMoved, fmt.Errorf("election %q has moved to %s", e.name, l.MovedTo))
	default:
		m.report(Vacant, e, nil, l.Term, endReason(l.End), nil)
	}
}

func endReason(end backend.End) Reason {
	switch end {
	case backend.Released:
		return ReasonReleased
	case backend.Failed:
		return ReasonFailed
	case backend.Deposed:
		return ReasonDeposed
	case backend.Forgotten:
		return ReasonForgotten
	}
	return ReasonVacant
}

// checkSameID reports another live process with this candidate's id. That process renews; the lease
// of a predecessor that has ended does not change.
func (m *machine) checkSameID(e *elec, l *backend.Lease, renewed bool) {
	other := l.Holder.ID == m.me.ID && l.Holder.Nonce != m.me.Nonce
	if other && renewed && !e.sameIDReported {
		m.reportNotice(e, ReasonSameID, sameID(l.Holder))
	}
	e.sameIDReported = other && (e.sameIDReported || renewed)
}

// checkSameIDInSession does the same for a lease that the store expires, whose record renewals do not
// change. By now the store would have ended the lease of a predecessor.
func (m *machine) checkSameIDInSession(now time.Duration, e *elec) {
	l := e.observed
	if l.ObserveFor < 0 && l.Holder.ID == m.me.ID && l.Holder.Nonce != m.me.Nonce && !e.sameIDReported && now >= e.unchangedSince+l.TTL {
		m.reportNotice(e, ReasonSameID, sameID(l.Holder))
		e.sameIDReported = true
	}
}

func sameID(other backend.Candidate) error {
	return fmt.Errorf("another live process, with the address %q, has the id %q as well: give each its own", other.Address, other.ID)
}

// nextRead sets when e is read next. A store that must be polled is read just after the holder's
// next expected renewal: so a crash is noticed as early as possible, with one reading for each
// renewal. A reading that came before the renewal, or found nobody, is repeated soon, then less and less often.
func (m *machine) nextRead(now time.Duration, e *elec) {
	l := e.observed
	switch every := max(min(l.Renew, m.TTL), m.shortWait()); {
	case m.listen && !m.poll:
		e.readAt = now + m.TTL/2 // only to check that the store answers
	case l.Vacant(): // it will be taken soon, if there are candidates, and a notification may be lost
		e.readAt = now + min(m.readDelay()<<min(e.tooEarly, 16), m.RenewEvery)
	case l.Renew <= 0 || l.Renew > l.TTL:
		e.readAt = now + m.RenewEvery // the holder does not say when it renews
	case e.tooEarly == 0:
		if e.renewalDue <= now {
			e.renewalDue = now - min(max(l.Age, 0), every) + every + m.readDelay()
		}
		e.readAt = e.renewalDue
	default:
		e.readAt = now + min(m.readDelay()<<min(e.tooEarly-1, 16), every)
	}
	e.readAt = max(e.readAt, now+time.Millisecond)
}

// readDelay is how long after an expected renewal the lease is read. The renewals of many thousand
// elections take a while, and one reading shall cover them all.
func (m *machine) readDelay() time.Duration { return m.shortWait() + m.renewalSpread() }

// shortWait is the shortest wait before a call is repeated.
func (m *machine) shortWait() time.Duration {
	return min(max(m.RenewEvery/16, time.Millisecond), 50*time.Millisecond)
}

// renewalSpread is how long the renewals of one leader may take: one call of many leases.
func (m *machine) renewalSpread() time.Duration {
	return min(time.Duration(len(m.elections)/1000)*25*time.Millisecond, m.RenewEvery/8)
}

// handleNotification schedules a reading of all leases of other processes, because Listen has
// returned.
func (m *machine) handleNotification(now time.Duration) {
	for _, e := range m.elections {
		if !m.mayBeOurs(now, e) {
			m.notificationUnread = true
			e.readAt = now
			m.advance(now, e)
		}
	}
}

// notificationRead handles the reading after a notification. After consecutive notifications
// without a change, Listen is called less and less often.
func (m *machine) notificationRead(now time.Duration, changed bool) {
	if !m.notificationUnread {
		return
	}
	m.notificationUnread = false
	if changed {
		m.emptyNotifications, m.listenAt = 0, now
		return
	}
	if m.emptyNotifications++; m.emptyNotifications > 1 {
		m.listenAt = now + min(m.shortWait()<<min(m.emptyNotifications, 16), m.TTL)
	}
}

// unreachableAt returns when watchers must be told that the store is unreachable or denies access.
func (m *machine) unreachableAt() time.Duration {
	if m.unreachableReported || len(m.elections) == 0 {
		return never
	}
	// A process that was stopped has not called the store: allow it one call.
	return max(min(m.lastContact, m.unreadableSince)+m.TTL, m.resumedAt+m.CallTimeout)
}

// unreachable reports that the state of the elections is unknown, except for those that this process
// leads: it leads them until its deadline.
func (m *machine) unreachable() {
	m.unreachableReported = true
	for _, e := range m.elections {
		if e.phase != phaseLeading {
			m.report(Unknown, e, nil, 0, storeReason(m.lastContactErr), m.lastContactErr)
		}
	}
}

// storeReason returns why the store cannot be used, given its last error.
func storeReason(err error) Reason {
	if backend.Class(err) == backend.ErrDenied {
		return ReasonDenied
	}
	return ReasonUnreachable
}
