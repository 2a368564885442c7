package election

import (
	"errors"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A call of the store (or of the health check) that the machine asks for. At
// most one of each kind is under way; elections that are due meanwhile wait and
// travel together in the next.
type call struct {
	kind    callKind
	sent    time.Duration // when it was asked for: not after it left
	timeout time.Duration // 0: none
	elecs   []*elec       // item i is about elecs[i]

	bids     []backend.Bid     // Acquire
	held     []backend.Held    // Renew, Release
	leases   []backend.Lease   // Observe, Listen
	requests []backend.Request // Ask
	names    string            // Announce: of the elections for which we campaign

	stale     time.Duration // Listen: when to cancel it and listen anew
	cancelled bool          // Listen: done
}

type callKind uint8

const (
	callRenew callKind = iota // first: it must never wait for the others
	callRelease
	callAcquire
	callObserve
	callRequest
	callAnnounce
	callHealth
	callListen
	calls
)

// enlist makes e travel in the next call of this kind.
func (m *machine) enqueue(k callKind, e *elec) {
	if !e.queued[k] {
		e.queued[k] = true
		m.queues[k] = append(m.queues[k], e)
	}
}

// wanted reports whether e still needs the call that it was enlisted for.
func (m *machine) stillNeeded(k callKind, e *elec, now time.Duration) bool {
	if e.index < 0 {
		return false
	}
	switch k {
	case callRenew:
		return !e.busy && e.phase.renewed() && now < e.trustedUntil
	case callRelease:
		// Since it was enlisted, it may have been elected and have lost that leadership.
		switch e.phase {
		case phaseQueued, phasePending, phaseReleasing:
			return !e.busy
		case phaseExpiring:
			return !e.busy && !m.awaitsDeadline(now, e)
		case phaseStuck:
			return !e.busy && now >= e.expiresAt
		}
		return false
	case callAcquire:
		return !e.busy && e.phase.bids() && m.bidAt(e) <= now
	case callObserve:
		return !e.observing && !m.mayBeOurs(now, e)
	case callRequest:
		return m.nominated(e)
	}
	return false
}

// dueAt returns when the next call of kind k is due, not counting retryAt.
func (m *machine) callDueAt(k callKind) time.Duration {
	switch {
	case m.closing && k > callObserve:
		return never
	case k == callAnnounce:
		return m.announceAt
	case k == callHealth:
		return m.healthAt
	case k == callListen && m.listen && !m.notificationUnread:
		return m.listenAt
	case len(m.queues[k]) > 0:
		return 0
	}
	return never
}

// dispatch starts the calls that are due.
func (m *machine) dispatch(now time.Duration) {
	if m.relisten && m.inFlight[callListen] == nil {
		m.listenAt = min(m.listenAt, now)
	}
	for k := range calls {
		if m.inFlight[k] != nil || now < m.callDueAt(k) || now < m.retryAt[k] {
			continue
		}
		c := &call{kind: k, sent: now, timeout: m.CallTimeout, stale: never}
		switch k {
		case callHealth:
		case callAnnounce:
			c.names = backend.ElectionList(m.campaigns)
		case callListen:
			// It may have gone deaf: not for ever. Where leases are read besides, that
			// costs a handover its speed and no more.
			c.timeout, c.stale = 0, now+2*m.TTL
			if m.poll {
				c.stale = now + 6*m.TTL
			}
			m.relisten = false
			c.leases = m.leasesToListen(now)
			if len(c.leases) == 0 {
				m.listenAt = never // until something is seen
				continue
			}
		default:
			if m.fillCall(c, now); len(c.elecs) == 0 {
				continue
			}
		}
		m.inFlight[k] = c
		m.emit(action{kind: doCall, call: c})
	}
	c := m.inFlight[callListen]
	if c == nil || c.cancelled {
		return
	}
	if m.relisten {
		m.relisten = false
		c.stale = min(c.stale, now+m.shortWait()) // changes come in crowds
	}
	if now >= c.stale || m.closing {
		c.stale, c.cancelled = never, true
		m.emit(action{kind: doCancel, call: c})
	}
}

// campaigns yields the elections that we lead, or would take over.
func (m *machine) campaigns(yield func(string) bool) {
	for _, e := range m.elections {
		if (e.phase == phaseLeading || e.mode > modeTry && m.isCandidate(e)) && !yield(e.name) {
			return
		}
	}
}

// listened returns the leases to listen to. Where the store is read all the same,
// one of each holder will do, of those who hold most first.
func (m *machine) leasesToListen(now time.Duration) (leases []backend.Lease) {
	held := make(map[string]int)
	for _, e := range m.elections {
		switch {
		case !e.hasObserved || m.mayBeOurs(now, e):
		case !m.poll:
			leases = append(leases, *e.observed)
		case !e.observed.Vacant():
			if held[e.observed.Holder.Nonce]++; held[e.observed.Holder.Nonce] == 1 {
				leases = append(leases, *e.observed)
			}
		}
	}
	if m.poll {
		slices.SortStableFunc(leases, func(a, b backend.Lease) int { return held[b.Holder.Nonce] - held[a.Holder.Nonce] })
	}
	return leases
}

// fill moves the queue of c's kind into it.
func (m *machine) fillCall(c *call, now time.Duration) {
	queue := m.queues[c.kind]
	if c.kind == callObserve {
		queue = m.addNearlyDue(queue, now)
	}
	c.elecs = make([]*elec, 0, len(queue))
	switch c.kind {
	case callAcquire:
		c.bids = make([]backend.Bid, 0, len(queue))
	case callRenew, callRelease:
		c.held = make([]backend.Held, 0, len(queue))
	case callObserve:
		c.leases = make([]backend.Lease, 0, len(queue))
	}
	rest := 0
	for i, e := range queue {
		if c.kind == callRelease && m.releaseBatch > 0 && len(c.elecs) == m.releaseBatch {
			rest = len(queue) - i
			break
		}
		e.queued[c.kind] = false
		if !m.stillNeeded(c.kind, e, now) {
			continue
		}
		c.elecs = append(c.elecs, e)
		switch c.kind {
		case callAcquire:
			e.busy = true
			over := *e.observed
			over.Election = e.name
			c.bids = append(c.bids, backend.Bid{Election: e.name, Candidate: m.me, TTL: m.TTL, Renew: m.RenewEvery, MinTerm: e.highestTerm, Expected: over})
		case callRenew, callRelease:
			e.busy = true
			l := backend.Held{Election: e.name, Holder: m.me, Term: e.term, TTL: m.TTL, Renew: m.RenewEvery, End: e.end}
			switch {
			case !e.phase.held():
				l.Term, l.End = 0, backend.Released // nobody led under it
			case c.kind == callRelease:
				l.Age = max(0, now-(e.trustedUntil+m.ClockMargin-m.TTL)) // since its last renewal
			}
			c.held = append(c.held, l)
		case callObserve:
			e.observing, e.readAt = true, never // its timer may be set for a moment while this is under way
			if !e.hasObserved {
				c.leases = append(c.leases, backend.Lease{Election: e.name})
			} else {
				c.leases = append(c.leases, *e.observed)
			}
		case callRequest:
			c.requests = append(c.requests, backend.Request{Election: e.name, Term: e.observed.Term, Kind: backend.Accept, ID: m.me.ID, Nonce: m.me.Nonce})
		}
	}
	left := copy(queue, queue[len(queue)-rest:])
	clear(queue[left:])
	m.queues[c.kind] = queue[:left]
}

// readAlong adds to the elections that are due for a look those that will be
// soon, but not before their renewal is expected: one statement for all.
func (m *machine) addNearlyDue(queue []*elec, now time.Duration) []*elec {
	soon := now + m.renewalSpread() + m.shortWait()/2
	if m.listen && !m.poll {
		soon = now + m.TTL/4 // no moment is better than another
	}
	for _, e := range m.elections {
		if !e.queued[callObserve] && e.readAt <= soon && m.stillNeeded(callObserve, e, now) {
			e.queued[callObserve] = true
			queue = append(queue, e)
		}
	}
	return queue
}

// reply takes in how a call ended.
func (m *machine) reply(now time.Duration, r reply) {
	c := r.call
	m.inFlight[c.kind] = nil
	m.jitterFraction = m.random.Float64()
	class := backend.Class(r.err)
	if c.kind == callRequest && errors.Is(r.err, backend.ErrStale) {
		class = nil // it has answered: a request has come too late
	}
	if class == nil || slices.ContainsFunc(r.answers, func(a backend.Answer) bool { return a.Outcome != backend.Unknown }) {
		m.failures[c.kind], m.retryAt[c.kind] = 0, 0
	} else if !c.cancelled {
		m.callFailed(now, c.kind, r.err)
	}
	if c.kind == callObserve && class == nil {
		m.unreadableSince = never
	} else if c.kind == callObserve {
		m.unreadableSince = min(m.unreadableSince, c.sent)
	}
	if class == nil && c.kind != callHealth && c.kind != callListen {
		m.lastContact = now
		if m.unreadableSince == never { // else what is written tells nothing of what others lead
			m.unreachableReported, m.deniedLogged, m.lastContactErr = false, false, nil
		}
	} else if class != nil && c.kind != callHealth && !c.cancelled {
		m.lastContactErr = r.err
	}

	switch c.kind {
	case callAcquire:
		for i, e := range c.elecs {
			a := answer(r, i)
			e.busy = false
			m.bidAnswered(now, e, &a, &c.bids[i], c.sent)
			m.advance(now, e)
		}
	case callRenew:
		if class == nil && len(c.elecs) == len(m.elections) {
			m.unreadableSince = never // there is nothing to be read
		}
		for i, e := range c.elecs {
			a := answer(r, i)
			e.busy = false
			m.renewalAnswered(now, e, &a, c.held[i].Term, c.sent, a.Err)
			m.advance(now, e)
		}
	case callRelease:
		// A call that fails says nothing of any of them. So that one which cannot be
		// released keeps nobody else waiting, fewer travel together until some are.
		if m.releaseBatch *= 2; class != nil {
			m.releaseBatch = max(1, len(c.elecs)/2)
		} else if m.releaseBatch > len(m.elections) {
			m.releaseBatch = 0
		}
		for _, e := range c.elecs {
			e.busy = false
			if class == nil {
				m.released(now, e)
			}
			m.advance(now, e)
		}
	case callObserve:
		m.observeReplied(now, c, r)
	case callRequest:
		if errors.Is(r.err, backend.ErrInvalid) {
			m.retryAt[callRequest] = 0 // the term is over
		}
	case callAnnounce:
		m.announceAt = c.sent + m.TTL
	case callHealth:
		m.healthReplied(now, r.err)
	case callListen:
		if m.listenAt = now; class == nil {
			m.handleNotification(now)
		}
	}
}

// answer returns the answer to item i, which is Unknown if there is none.
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

// observed is the end of an Observe.
func (m *machine) observeReplied(now time.Duration, c *call, r reply) {
	if r.err != nil {
		for _, e := range c.elecs {
			e.observing = false
			e.readAt = max(m.retryAt[callObserve], now+time.Millisecond)
			m.reportDenied(e, callObserve, &backend.Answer{Err: r.err})
			m.endTry(e, r.err)
			m.advance(now, e)
		}
		return
	}
	news := false
	next := 0 // most stores answer in the order of the question
	byName := map[string]*backend.Lease(nil)
	for i, e := range c.elecs {
		e.observing = false
		m.reportDenied(e, callObserve, &backend.Answer{Outcome: backend.Granted})
		var l *backend.Lease
		switch {
		case next < len(r.changed) && r.changed[next].Election == e.name:
			l = &r.changed[next]
			next++
		case next < len(r.changed):
			if byName == nil {
				byName = make(map[string]*backend.Lease, len(r.changed))
				for i := range r.changed {
					byName[r.changed[i].Election] = &r.changed[i]
				}
			}
			l = byName[e.name]
		}
		news = news || l != nil && l.Differs(c.leases[i])
		if l != nil || c.leases[i].Heartbeat == e.observed.Heartbeat { // else it changed behind this call
			m.observe(now, e, l, c.sent)
		}
		if e.readAt == never {
			m.nextRead(now, e)
		}
		m.advance(now, e)
	}
	m.notificationRead(now, news) // what was never led is always answered, and no news
}

var errOverdue = errors.New("the health check has not returned in time")

// health is the outcome of the health check.
func (m *machine) healthReplied(now time.Duration, err error) {
	m.healthAt = now + m.RenewEvery
	m.retryAt[callHealth] = 0
	first, unhealthy := !m.healthKnown, err != nil
	m.healthKnown = true
	if unhealthy != m.unhealthy {
		m.unhealthy = unhealthy
		m.emit(action{kind: doLog, reason: ReasonHealth, err: err})
	} else if !first {
		return
	}
	m.each(nil, func(e *elec) {
		if unhealthy {
			m.stepDown(now, e, ReasonHealth, backend.Released, err)
		}
		m.advance(now, e)
	})
}

// failed notes an error of a call and when to try again.
func (m *machine) callFailed(now time.Duration, k callKind, err error) {
	m.failures[k]++
	wait := m.backoff(m.failures[k])
	if backend.Class(err) != backend.ErrUnavailable { // somebody must act
		slow := m.TTL
		if k == callObserve {
			slow = m.RenewEvery // as usual: a watch may be still to come when it is over
		}
		wait = max(wait, m.jitter(slow))
		if !m.deniedLogged && k != callHealth {
			m.deniedLogged = true
			m.emit(action{kind: doLog, reason: ReasonDenied, err: err})
		}
	}
	if k != callRenew && k != callAcquire { // their elections are timed one by one
		m.retryAt[k] = now + wait
	}
}

// backoff returns how long to wait after so many failures in a row.
func (m *machine) backoff(failures int) time.Duration {
	return m.jitter(min(m.shortWait()<<min(failures, 10), m.RenewEvery))
}
