package election

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A call of the store or of the health check. At most one of each kind is under way. Elections that
// need a call of that kind meanwhile wait, and share the next one.
type call struct {
	kind    callKind
	sent    time.Duration // when the machine asked for it, so not after the request was sent
	timeout time.Duration // 0: none
	elecs   []*elec       // item i of the call is about elecs[i]

	bids     []backend.Bid     // Acquire
	held     []backend.Held    // Renew, Release
	leases   []backend.Lease   // Observe, Listen
	requests []backend.Request // Request
	names    string            // Announce: the elections for which this process campaigns

	restartAt time.Duration // Listen: when to cancel it and listen again
	cancelled bool          // Listen: it was cancelled
}

type callKind uint8

const (
	callRenew callKind = iota // first, because it must not wait for the others
	callRelease
	callAcquire
	callObserve
	callRequest // this one and the next ones are not made while the manager closes
	callAnnounce
	callMembers
	callHealth
	callListen
	callKinds // their number
)

// enqueue makes e an item of the next call of this kind.
func (m *machine) enqueue(k callKind, e *elec) {
	if !e.queued[k] {
		e.queued[k] = true
		m.queues[k] = append(m.queues[k], e)
	}
}

// stillNeeded reports whether e still needs the call for which it was queued.
func (m *machine) stillNeeded(k callKind, e *elec, now time.Duration) bool {
	if e.index < 0 {
		return false
	}
	switch k {
	case callRenew:
		return !e.leaseCallUnderWay && e.phase.renewed() && now < e.trustedUntil
	case callRelease:
		return !e.leaseCallUnderWay && now >= e.releaseAt()
	case callAcquire:
		return !e.leaseCallUnderWay && e.phase.bids() && m.bidAt(e) <= now
	case callObserve:
		return !e.observing && !m.mayBeOurs(now, e)
	case callRequest:
		return m.nominated(e) || m.mayClaim(e)
	}
	return false
}

// releaseAt returns when e may be released. It is asked again when the release is sent: since it was queued,
// this process may have won and lost another leadership.
func (e *elec) releaseAt() time.Duration {
	switch e.phase {
	case phasePending, phaseReleasing:
		return 0
	case phaseAwaitingDeadline:
		return e.trustedUntil
	case phaseStuck:
		return e.expiresAt
	}
	return never
}

// callDueAt returns when the next call of kind k is due.
func (m *machine) callDueAt(k callKind) time.Duration {
	due := never
	switch {
	case m.closing && k > callObserve:
	case k == callAnnounce:
		due = m.announceAt
	case k == callMembers:
		due = m.priorities.readAt
	case k == callHealth:
		due = m.healthAt
	case k == callListen && m.store.Push && !m.notificationUnread:
		due = m.listenAt
	case len(m.queues[k]) > 0:
		due = 0
	}
	return max(due, m.retryAt[k])
}

func (m *machine) dispatch(now time.Duration) {
	if m.relisten && m.inFlight[callListen] == nil {
		m.listenAt = min(m.listenAt, now)
	}
	for k := range callKinds {
		if m.inFlight[k] == nil && now >= m.callDueAt(k) {
			m.startCall(now, k)
		}
	}
	m.restartListen(now)
}

// startCall starts a call of kind k if there is anything to call for.
func (m *machine) startCall(now time.Duration, k callKind) {
	c := &call{kind: k, sent: now, timeout: m.CallTimeout, restartAt: never}
	switch k {
	case callHealth, callMembers:
	case callAnnounce:
		c.names = m.announcement()
		for range m.campaigns { // the first ones are announced at once
			m.announced = now
		}
	case callListen:
		// Listen is restarted at intervals, in case it hangs. Where leases are also polled, that costs only a
		// slower handover.
		c.timeout, c.restartAt = 0, now+2*m.TTL
		if m.store.Poll {
			c.restartAt = now + 6*m.TTL
		}
		m.relisten = false
		c.leases = m.leasesToListen(now)
		if len(c.leases) == 0 {
			m.listenAt = never // until a lease is observed
			return
		}
	default:
		m.fillCall(c, now)
		if len(c.elecs) == 0 {
			return
		}
	}
	m.inFlight[k] = c
	m.emit(action{kind: doCall, call: c})
}

// restartListen cancels Listen when its time has come: its reply starts it again.
func (m *machine) restartListen(now time.Duration) {
	c := m.inFlight[callListen]
	if c == nil || c.cancelled {
		return
	}
	if m.relisten {
		m.relisten = false
		c.restartAt = min(c.restartAt, now+m.shortWait()) // several changes often come together
	}
	if now >= c.restartAt || m.closing {
		c.restartAt, c.cancelled = never, true
		m.emit(action{kind: doCancel, call: c})
	}
}

// announceSoon announces this process again, since its campaigns have changed. Several changes often
// come together.
func (m *machine) announceSoon(now time.Duration) {
	if !m.Observer && m.inFlight[callAnnounce] == nil { // its reply compares the campaigns
		m.announceAt = min(m.announceAt, max(now+m.shortWait(), m.announced+m.RenewEvery/2))
	}
}

func (m *machine) announcement() string { return backend.ElectionList(m.Priority, m.campaigns) }

// campaigns yields the elections that this process leads, or for which it campaigns.
func (m *machine) campaigns(yield func(string) bool) {
	for _, e := range m.elections {
		if (e.phase == phaseLeading || e.mode > modeTry && m.isCandidate(e)) && !yield(e.name) {
			return
		}
	}
}

// leasesToListen returns the leases for Listen. For a store that is also polled, that is one lease
// of each holder, and one vacant lease: a grant is news, too.
func (m *machine) leasesToListen(now time.Duration) (leases []backend.Lease) {
	holders := map[backend.Nonce]bool{}
	for _, e := range m.elections {
		holder := e.observed.Holder.Nonce
		if e.hasObserved && !m.mayBeOurs(now, e) && !(m.store.Poll && holders[holder]) {
			holders[holder] = true
			leases = append(leases, *e.observed)
		}
	}
	return leases
}

// fillCall moves the queue of c's kind into c; of releases, no more than a batch.
func (m *machine) fillCall(c *call, now time.Duration) {
	queue := m.queues[c.kind]
	if c.kind == callObserve {
		queue = m.addNearlyDue(queue, now)
	}
	most := len(queue)
	if c.kind == callRelease && m.releaseBatch > 0 {
		most = m.releaseBatch
	}
	for len(queue) > 0 && len(c.elecs) < most {
		e := queue[0]
		queue = queue[1:]
		e.queued[c.kind] = false
		if m.stillNeeded(c.kind, e, now) {
			c.elecs = append(c.elecs, e)
			m.addItem(c, e, now)
		}
	}
	m.queues[c.kind] = slices.Clone(queue) // a copy, so that what was done can be freed
}

func (m *machine) addItem(c *call, e *elec, now time.Duration) {
	seen := *e.observed
	seen.Election = e.name
	switch c.kind {
	case callAcquire:
		e.leaseCallUnderWay = true
		b := backend.Bid{Election: e.name, Candidate: m.me, TTL: m.TTL, Renew: m.RenewEvery, Expected: seen}
		b.MinTerm = e.highestTerm
		c.bids = append(c.bids, b)
	case callRenew, callRelease:
		e.leaseCallUnderWay = true
		h := backend.Held{Election: e.name, Holder: m.me, TTL: m.TTL, Renew: m.RenewEvery}
		h.End = backend.Released // of a bid without an answer: nobody has led
		if e.phase.held() {
			h.Term, h.End = e.term, e.end
			h.Age = max(0, now-(e.trustedUntil+m.ClockMargin-m.TTL)) // since its last renewal
		}
		c.held = append(c.held, h)
	case callObserve:
		e.observing, e.readAt = true, never // no other reading while this one is under way
		c.leases = append(c.leases, seen)
	case callRequest:
		r := backend.Request{Election: e.name, Term: seen.Term, Kind: backend.Accept, ID: m.me.ID}
		r.Nonce = m.me.Nonce
		e.noBidBefore = 0 // who is asked to lead waits for nobody
		c.requests = append(c.requests, r)
	}
}

// addNearlyDue adds the elections whose reading is due soon, so that one call reads them all. It
// leaves out those whose holder is not yet expected to have renewed.
func (m *machine) addNearlyDue(queue []*elec, now time.Duration) []*elec {
	soon := now + m.renewalSpread() + m.shortWait()/2
	if m.store.Push && !m.store.Poll {
		soon = now + m.TTL/4 // any moment will do
	}
	for _, e := range m.elections {
		if !e.queued[callObserve] && e.readAt <= soon && m.stillNeeded(callObserve, e, now) {
			e.queued[callObserve] = true
			queue = append(queue, e)
		}
	}
	return queue
}
