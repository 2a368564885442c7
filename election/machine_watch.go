package election

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// observe takes in what the store said of a lease that is not ours. The call was
// sent at sent; now is not before it was received. l nil: unchanged.
func (m *machine) observe(now time.Duration, e *elec, l *backend.Lease, sent time.Duration) {
	if m.mayBeOurs(now, e) {
		return // overtaken by a grant
	}
	if l != nil { // whoever wrote it
		l.TTL, l.Renew, l.ObserveFor = min(l.TTL, maxDuration), min(l.Renew, maxDuration), min(l.ObserveFor, maxDuration)
	}
	if l != nil && l.Term < e.highestTerm && sent < e.confirmedAt {
		return // overtaken by newer news
	}
	renewed := false
	switch {
	case !e.hasObserved, l != nil && !e.observed.Unchanged(*l):
		if l == nil {
			e.readAt = now + m.RenewEvery // a store must always answer a first look
			return
		}
		m.relisten = m.relisten || !e.hasObserved
		renewed = e.hasObserved && l.Term == e.observed.Term
		m.checkSameID(e, l, renewed)
		if e.hasObserved && l.Term < e.highestTerm && l.Term != e.observed.Term {
			m.reportNotice(e, ReasonWentBack, nil)
		}
		if e.phase == phaseQueued && l.ObserveFor < 0 && (l.Term != e.observed.Term || l.Holder != e.observed.Holder || l.Ref != e.observed.Ref) {
			e.on(unknown) // another's turn has come: what stood in the queue for us may be gone
		}
		m.setObserved(e, l)
		e.unchangedSince, e.hasObserved, e.tooEarly = now, true, 0
		if l.Term <= maxTerm {
			e.highestTerm = max(e.highestTerm, l.Term)
		}
	case l != nil: // not renewed, so that a watch goes on; a request, its age, or who holds it may have changed
		m.setObserved(e, l)
		fallthrough
	default:
		e.tooEarly = min(e.tooEarly+1, maxCount)
		m.checkSameIDInSession(now, e)
	}
	e.confirmedAt = now
	m.nextRead(now, e)
	if e.readSinceTry = sent >= e.tryBegan; e.mode == modeTry && !e.readSinceTry { // asked before the attempt began
		e.readAt = max(now, e.tryBegan)
	}
	m.reportObserved(e, sent)

	switch {
	case e.observed.Holder.Nonce == m.me.Nonce && e.observed.ObserveFor == 0 && e.phase == phaseFollowing && !e.busy:
		// Left over, or granted late. compete bids, and if it may not, release.
		e.on(unknown)
	case m.nominated(e):
		m.enqueue(callRequest, e)
	}
}

// nominated reports whether we are nominated and will take the lease once the
// holder makes room. An attempt (Try) will not: it is over at once.
func (m *machine) nominated(e *elec) bool {
	w := &e.observed.Request
	return w.Kind == backend.Nominate && w.Term == e.observed.Term && w.ID == m.me.ID && m.isCandidate(e) && e.mode != modeTry
}

// remember remembers what the store holds.
func (m *machine) setObserved(e *elec, l *backend.Lease) {
	clean(l, e.observed)
	if e.observed == m.unobserved {
		e.observed = new(backend.Lease)
	}
	*e.observed = *l
}

// clean makes text from the store harmless, unless it is what was seen before.
func clean(l, seen *backend.Lease) {
	if l.Holder != seen.Holder || l.Request != seen.Request || l.LastID != seen.LastID || l.LastNonce != seen.LastNonce || l.End != seen.End || l.MovedTo != seen.MovedTo || l.MovedFrom != seen.MovedFrom || l.TTL < 0 || l.Renew < 0 {
		*l = backend.CleanLease(*l)
	}
}

// showObserved tells watchers who leads, by what was seen when asked at sent.
func (m *machine) reportObserved(e *elec, sent time.Duration) {
	l := e.observed
	switch {
	case l.Term < e.highestTerm, l.Term > maxTerm:
		m.report(Unknown, e, nil, 0, ReasonWentBack, nil) // never report an older term as news
	case l.Holder.Nonce == m.me.Nonce:
		// A leftover of ours leads nobody.
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
		return ReasonExpired
	case backend.Deposed:
		return ReasonDeposed
	case backend.Forgotten:
		return ReasonForgotten
	}
	return ReasonVacant
}

// checkID reports another live process with our id: one that renews. A
// predecessor's lease stands still.
func (m *machine) checkSameID(e *elec, l *backend.Lease, renewed bool) {
	other := l.Holder.ID == m.me.ID && l.Holder.Nonce != m.me.Nonce
	if other && renewed && !e.sameIDReported {
		m.reportNotice(e, ReasonSameID, sameID(l.Holder))
	}
	e.sameIDReported = other && (e.sameIDReported || renewed)
}

// checkSession is checkID where renewals do not show: a predecessor's lease would
// have been ended by the store by now.
func (m *machine) checkSameIDInSession(now time.Duration, e *elec) {
	l := e.observed
	if l.ObserveFor < 0 && l.Holder.ID == m.me.ID && l.Holder.Nonce != m.me.Nonce && !e.sameIDReported && now >= e.unchangedSince+l.TTL+m.takeover {
		m.reportNotice(e, ReasonSameID, sameID(l.Holder))
		e.sameIDReported = true
	}
}

func sameID(other backend.Candidate) error {
	return fmt.Errorf("another live process, with the address %q, has the id %q as well: give each its own", other.Address, other.ID)
}

// nextRead sets when e is read next. Where the store must be read, that is just
// after the holder's next renewal: a crash is then noticed as early as can be, at
// one reading a renewal. A reading that came too early is repeated soon, then
// less and less often.
func (m *machine) nextRead(now time.Duration, e *elec) {
	l := e.observed
	switch every := max(min(l.Renew, m.TTL), m.shortWait()); {
	case m.listen && !m.poll:
		e.readAt = now + m.TTL/2 // only to be sure that the store is there
	case l.Vacant():
		e.readAt = now + m.RenewEvery
	case l.Renew <= 0 || l.Renew > l.TTL:
		e.readAt = now + m.RenewEvery // the holder does not tell
	case e.tooEarly == 0:
		e.readAt = now - min(max(l.Age, 0), every) + every + m.readDelay()
	default:
		e.readAt = now + min(m.readDelay()<<min(e.tooEarly-1, 16), every)
	}
	e.readAt = max(e.readAt, now+time.Millisecond)
}

// slack is how long after an expected renewal it is read. The renewals of many
// thousand elections take a while, and one reading for all of them is worth it.
func (m *machine) readDelay() time.Duration { return m.shortWait() + m.renewalSpread() }

// pause is how long is waited before looking, or trying, again.
func (m *machine) shortWait() time.Duration {
	return min(max(m.RenewEvery/16, time.Millisecond), 50*time.Millisecond)
}

// spread is how far apart the renewals of one leader may lie.
func (m *machine) renewalSpread() time.Duration {
	return min(time.Duration(len(m.elections)/1000)*25*time.Millisecond, m.RenewEvery/8)
}

// notify: Listen has come back, so look at everything that is not ours.
func (m *machine) handleNotification(now time.Duration) {
	for _, e := range m.elections {
		if !m.mayBeOurs(now, e) {
			m.notificationUnread = true
			e.readAt = now
			m.advance(now, e)
		}
	}
}

// answered notes what a notification has brought. A notifier that notifies for nothing is
// listened to less and less: nothing polls faster because it fails.
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

// unreachableAt returns when the store counts as unreachable.
func (m *machine) unreachableAt() time.Duration {
	if m.unreachableReported || len(m.elections) == 0 {
		return never
	}
	// Who was stopped has not asked: it has a call's time to do so.
	return max(min(m.lastContact, m.unreadableSince)+m.TTL, m.resumedAt+m.CallTimeout)
}

// unreachable tells watchers that nothing is known any more. What we lead we
// know, until its deadline.
func (m *machine) unreachable() {
	m.unreachableReported = true
	for _, e := range m.elections {
		if e.phase != phaseLeading {
			m.report(Unknown, e, nil, 0, ReasonUnreachable, m.lastContactErr)
		}
	}
}
