package election

import (
	"cmp"
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
	if l != nil {
		m.makeHarmless(e, l)
	}
	if l != nil && l.Term < e.highestTerm && sent <= e.confirmedAt {
		return // an answer that is as new, or newer, has overtaken this one
	}
	switch {
	case l == nil && !e.hasObserved:
		e.readAt = now + m.RenewEvery // a store must answer a first reading
		return
	case l == nil:
		m.observeUnchanged(now, e)
	case e.hasObserved && e.observed.Unchanged(*l):
		m.setObserved(e, l) // the request, the age or the holder may have changed
		m.observeUnchanged(now, e)
	default:
		m.observeChanged(now, e, l)
	}

	e.confirmedAt = now
	m.noteDoubt(now, e)
	m.nextRead(now, e)
	e.readSinceTry = sent >= e.tryBegan
	if e.mode == modeTry && !e.readSinceTry {
		e.readAt = max(now, e.tryBegan)
	}
	m.reportObserved(e, sent)

	switch {
	case e.idle() && e.observed.Holder.Nonce == m.me.Nonce && e.observed.ObserveFor == 0:
		m.on(e, foundOurs) // advance then bids or releases
	case m.nominated(e):
		m.enqueue(callRequest, e)
	}
}

// observeUnchanged continues the observation.
func (m *machine) observeUnchanged(now time.Duration, e *elec) {
	if now >= e.renewalDue { // otherwise a notification was the reason for this reading
		e.tooEarly++
	}
	// A store that expires leases would have ended that of a predecessor by now.
	alive := e.observed.ObserveFor < 0 && now >= e.unchangedSince+e.observed.TTL
	m.checkSameID(e, alive)
}

// observeChanged begins the observation anew: the lease is another one, was renewed, or must be observed for
// longer.
func (m *machine) observeChanged(now time.Duration, e *elec, l *backend.Lease) {
	first, sameTerm := !e.hasObserved, l.Term == e.observed.Term
	m.relisten = m.relisten || first
	if !first && !sameTerm && l.Term < e.highestTerm {
		m.reportNotice(e, ReasonWentBack, nil)
	}

	if !first { // a store that knows no age believes the clock of the holder's host
		l.Age = min(l.Age, now-e.confirmedAt)
	}
	elected := !l.Vacant() && !sameTerm
	if elected && !first && m.isCandidate(e) {
		e.passedOver++
	}
	if elected || first || l.Vacant() != e.observed.Vacant() {
		e.turn = m.drawTurn(e)
	}
	if e.futile && l.Vacant() { // whoever kept the bid out has gone
		e.futile, e.retryBidAt, e.failures = false, now, 0
	}

	m.setObserved(e, l)
	m.checkSameID(e, !first && sameTerm)
	e.unchangedSince, e.tooEarly, e.renewalDue = now, 0, 0
	if l.Term <= backend.MaxTerm {
		e.highestTerm = max(e.highestTerm, l.Term)
	}
}

// nominated reports whether this process is nominated and can accept. A Try cannot: it ends before
// the holder has stepped down. Nor can one whose function has not returned.
func (m *machine) nominated(e *elec) bool {
	req := &e.observed.Request
	named := req.Kind == backend.Nominate && req.Term == e.observed.Term && req.ID == m.me.ID
	return named && m.isCandidate(e) && e.mode != modeTry && e.phase.bids()
}

// makeHarmless cleans what the store says of a lease, unless it says nothing else than the last time.
func (m *machine) makeHarmless(e *elec, l *backend.Lease) {
	seen := *e.observed
	seen.Term, seen.Version, seen.Age = l.Term, l.Version, l.Age
	if *l != seen {
		*l = clean.Lease(*l)
	}
}

func (m *machine) setObserved(e *elec, l *backend.Lease) {
	if !e.hasObserved {
		e.hasObserved, e.observed = true, new(backend.Lease)
	}
	*e.observed = *l
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
	case !l.Vacant() && l.ObserveFor == 0 && m.store.Expiry == backend.ByKernel: // the holder has ended
		m.report(Vacant, e, nil, l.Term, ReasonFailed, nil)
	case !l.Vacant() && l.ObserveFor >= 0 && l.TTL > 0 && sent >= e.unchangedSince+max(l.TTL, l.ObserveFor):
		m.report(Vacant, e, nil, l.Term, ReasonExpired, nil)
	case !l.Vacant():
		m.report(Elected, e, &l.Holder, l.Term, ReasonElected, nil)
	case l.MovedTo != "":
		moved := fmt.Errorf("election %q has moved to %s", e.name, l.MovedTo)
		m.report(Vacant, e, nil, l.Term, ReasonMoved, moved)
	default:
		m.report(Vacant, e, nil, l.Term, endReason(l.End), nil)
	}
}

// endReason returns why nobody leads. These reasons have the texts of the ends.
func endReason(end backend.End) Reason {
	switch r := Reason(end); r {
	case ReasonReleased, ReasonFailed, ReasonDeposed, ReasonForgotten:
		return r
	}
	return ReasonVacant
}

// checkSameID reports if the holder is another process with this candidate's id. It may be a predecessor that
// has ended, unless it is alive.
func (m *machine) checkSameID(e *elec, alive bool) {
	other := e.observed.Holder
	same := other.ID == m.me.ID && other.Nonce != m.me.Nonce
	if same && alive && e.sameID != other.Nonce {
		e.sameID = other.Nonce
		const text = "another live process, with the address %q, has the id %q as well: give each its own"
		m.reportNotice(e, ReasonSameID, fmt.Errorf(text, other.Address, other.ID))
	}
}

// nextRead sets when e is read next. A store that must be polled is read just after the holder's next
// expected renewal: so a crash is noticed as early as possible, with one reading for each renewal. A reading
// that came before the renewal, or found nobody, is repeated soon, then less and less often.
func (m *machine) nextRead(now time.Duration, e *elec) {
	l := e.observed
	every := max(min(l.Renew, max(m.TTL/2, m.RenewEvery)), m.shortWait()) // or else it seems unreachable
	switch {
	case m.store.Push && !m.store.Poll:
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

// handleNotification schedules a reading of all leases of other processes, because Listen has returned.
func (m *machine) handleNotification(now time.Duration) {
	m.each(nil, func(e *elec) {
		if !m.mayBeOurs(now, e) {
			m.notificationUnread = true
			e.readAt = now
			m.advance(now, e)
		}
	})
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
	m.emptyNotifications++
	if m.emptyNotifications > 1 {
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
	m.lastContactErr = cmp.Or(m.lastContactErr, errSilent)
	o, reason := &m.away, storeReason(m.lastContactErr)
	if !o.told && reason == ReasonUnreachable { // calls do not even return, as on a disk that hangs
		o.told, o.since = true, min(m.lastContact, m.unreadableSince)
		m.emit(action{kind: doLogOutage, reason: reason, since: o.since, err: m.lastContactErr})
	}
	if c := m.inFlight[callObserve]; c != nil { // until it is answered, whatever else is
		m.unreadableSince = min(m.unreadableSince, c.sent)
	}
	for _, e := range m.elections {
		if e.phase != phaseLeading {
			m.report(Unknown, e, nil, 0, storeReason(m.lastContactErr), m.lastContactErr)
		}
	}
}

var errSilent = fmt.Errorf("%w: calls have not returned", backend.ErrUnavailable)

// storeReason returns why the store cannot be used, given its last error.
func storeReason(err error) Reason {
	if backend.Class(err) == backend.ErrDenied {
		return ReasonDenied
	}
	return ReasonUnreachable
}
