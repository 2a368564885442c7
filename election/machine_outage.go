package election

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// What the log says while the store is away, and while nobody can be elected because the store may have lost
// a grant: once when it begins, and once when it is over.

// An outage is a time in which calls of some kind fail: a store whose disk is full, or that refuses writes,
// may still be read. A machine has two, of stores that are away and of denials, since a denial may last.
type outage struct {
	told    bool          // it was logged
	since   time.Duration // of one that was logged: when the first call was sent that has failed
	last    time.Duration // when the last one has failed
	failing [callKinds]streak
}

// A streak is of calls of one kind that have failed, the first of which was sent at since. The zero value is
// none.
type streak struct{ since, last time.Duration }

// noteOutage notes what a reply says of an outage. A call about several elections may be denied for some of
// them.
func (m *machine) noteOutage(now time.Duration, r *reply) {
	c, answered := r.call, r.answeredByStore()
	denied := slices.IndexFunc(r.answers, func(a backend.Answer) bool {
		return a.Outcome == backend.Unknown && backend.Class(a.Err) == backend.ErrDenied
	})
	switch {
	case c.kind == callHealth, c.cancelled, c.kind == callListen && backend.Class(r.err) != backend.ErrDenied:
	case !answered:
		m.noteFailure(now, c, r.err)
	case denied >= 0:
		m.noteFailure(now, c, r.answers[denied].Err)
	case len(r.answers) > 0 && !r.decided():
		m.noteFailure(now, c, r.answers[0].Err)
	default:
		m.noteAnswer(now, c.kind)
	}
}

// noteFailure notes a call that has failed. One that is repeated with success is not worth a line, a denial
// is. What the store never accepts is reported to those who have asked for it.
func (m *machine) noteFailure(now time.Duration, c *call, err error) {
	o, reason := &m.away, ReasonUnreachable
	switch class := backend.Class(err); {
	case class == backend.ErrInvalid && c.kind == callAcquire:
		return
	case class != backend.ErrUnavailable:
		m.away.failing[c.kind] = streak{}
		o, reason = &m.denial, ReasonDenied
	}
	f := &o.failing[c.kind]
	if !m.fails(now, o, c.kind) {
		*f = streak{since: c.sent}
	}
	f.last, o.last = now, now
	if o.told || o == &m.away && now-max(f.since, m.resumedAt) < m.RenewEvery {
		return // or this process was stopped, and tries again
	}
	o.told, o.since = true, f.since
	m.emit(action{kind: doLogOutage, reason: reason, since: f.since, err: err})
}

// fails reports whether calls of kind k fail. Those that were not repeated for two TTLs are no longer needed,
// or no longer denied.
func (m *machine) fails(now time.Duration, o *outage, k callKind) bool {
	f, c, away := o.failing[k], m.inFlight[k], o == &m.away
	limited := c != nil && c.timeout > 0 && k != callHealth
	if away && limited && now > max(c.sent, m.resumedAt)+c.timeout { // it hangs
		return true
	}
	return f != streak{} && now-f.last < 2*m.TTL && (!away || m.needs(now, k))
}

// needs reports whether this process has a use for calls of kind k. Who leads all elections needs no
// readings. Bids and renewals are needed until each election has a leader: the failed bid of who reads then
// that another leads is never repeated.
func (m *machine) needs(now time.Duration, k callKind) bool {
	if k != callObserve && k != callAcquire && k != callRenew {
		return true
	}
	return slices.ContainsFunc(m.elections, func(e *elec) bool {
		if m.mayBeOurs(now, e) {
			return k == callRenew
		}
		return k == callObserve || m.isCandidate(e) && !m.isHeld(now, e)
	})
}

// isHeld reports whether the observed lease is held, and has not expired yet.
func (m *machine) isHeld(now time.Duration, e *elec) bool {
	l := e.observed
	return e.hasObserved && !l.Vacant() && (l.ObserveFor < 0 || now < e.unchangedSince+l.ObserveFor)
}

// noteAnswer notes a call that was answered. Where leases can be granted or renewed, nobody is kept from
// leading by other writes that fail. An answer about one election does not say that another is no longer
// denied: after an outage, that shows within two TTLs, and is said unless the end of the outage was.
func (m *machine) noteAnswer(now time.Duration, k callKind) {
	for other := range callKinds {
		write := other == callRelease || other == callRequest || other == callAnnounce
		if other == k || write && (k == callAcquire || k == callRenew) {
			m.away.failing[other] = streak{}
		}
	}
	if m.ends(now, &m.away) {
		m.succeedAt = now
		m.emit(action{kind: doLogOver, text: "calls to the store succeed again", since: m.away.since})
	}
	if !m.away.told && now-m.succeedAt > 2*m.TTL && m.ends(now, &m.denial) && m.denial.last > m.succeedAt {
		m.emit(action{kind: doLogOver, text: "calls to the store succeed again", since: m.denial.since})
	}
}

// ends ends an outage that was logged if no kind of call fails, and reports whether it has.
func (m *machine) ends(now time.Duration, o *outage) bool {
	for k := range callKinds {
		if m.fails(now, o, k) {
			return false
		}
	}
	if !o.told {
		return false
	}
	o.told, o.failing = false, [callKinds]streak{} // what fails again later begins then
	return true
}

// A doubt is a time in which elections cannot be won, because the store may have lost a grant. The zero value
// is none.
type doubt struct {
	since, until time.Duration // since the first reading that showed one, until all can be won
	told         bool
}

// untoldDoubt is for how much longer than usual a lease may have to be watched without a line. Some stores
// count in whole seconds, and beside other programs each vacancy is watched for a moment.
const untoldDoubt = 2 * time.Second

// doubtful reports whether the observed lease must be watched although nobody holds it, or for longer than
// its TTL: a later grant may be missing from the store. Other kinds of stores have other reasons to wait.
func (m *machine) doubtful(e *elec) bool {
	usual := untoldDoubt
	if !e.observed.Vacant() {
		usual += e.observed.TTL
	}
	return m.store.Expiry == backend.ByChallengers && e.observed.ObserveFor > usual
}

// noteDoubt notes that e cannot be won for a while. The line takes two readings: one alone may have been
// overtaken by a later one of this process, and is then taken for an older copy. It waits until all elections
// have been read.
func (m *machine) noteDoubt(now time.Duration, e *elec) {
	d, until := &m.doubt, e.unchangedSince+e.observed.ObserveFor
	if !m.doubtful(e) || now == e.unchangedSince && !d.told || now >= until {
		return
	}
	if d.until == 0 {
		d.since = now
	}
	d.until = max(d.until, until)
	if !d.told && now >= d.since+m.RenewEvery/2 {
		d.told = true
		m.emit(action{kind: doLogDoubt, since: d.since})
	}
}

// endDoubt notes when all elections can be won again. When several processes bid at its end, some elections
// may have to be watched once more: that is known after their bids, and a reading.
func (m *machine) endDoubt(now time.Duration) {
	if now < m.doubt.until+2*m.RenewEvery {
		return
	}
	if m.doubt.told {
		m.emit(action{kind: doLogOver, text: "elections can be won again", since: m.doubt.since})
	}
	m.doubt = doubt{}
}
