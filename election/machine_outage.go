package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// What the log says while the store is away, and while nobody can be elected because the store may have lost a
// grant: once when it begins, and once when it is over.

// An outage is a time without an answer of the store, or without one to calls of some kind: a store whose disk is full,
// or that has lost its replicas, may still be read.
type outage struct {
	told    bool          // it was logged
	since   time.Duration // of an outage that was logged: when the first call was sent that has failed
	failing [callKinds]streak
}

// A streak is of calls of one kind that have failed, the first of which was sent at since. The zero value is none.
type streak struct{ since, last time.Duration }

// noteFailure notes a call that has failed. One that is repeated with success is not worth a line.
func (m *machine) noteFailure(now time.Duration, c *call, err error) {
	if backend.Class(err) != backend.ErrUnavailable {
		return
	}
	f := &m.outage.failing[c.kind]
	if !m.fails(now, c.kind) {
		f.since = c.sent
	}
	if f.last = now; !m.outage.told && now-f.since >= m.RenewEvery {
		m.outage.told, m.outage.since = true, f.since
		m.emit(action{kind: doLog, reason: ReasonUnreachable, until: f.since, err: err})
	}
}

// fails reports whether calls of kind k fail. Those that were not repeated for a TTL are no longer needed, but for
// announcements, which come once in a TTL.
func (m *machine) fails(now time.Duration, k callKind) bool {
	f := m.outage.failing[k]
	return f != streak{} && (k == callAnnounce || now-f.last < m.TTL)
}

// noteAnswer notes a call that was answered. An outage ends when no kind of call fails. Where leases can be granted or
// renewed, nobody is kept from leading by other writes that fail.
func (m *machine) noteAnswer(now time.Duration, k callKind) {
	f := &m.outage.failing
	if f[k] = (streak{}); k == callAcquire || k == callRenew {
		f[callRelease], f[callRequest], f[callAnnounce] = streak{}, streak{}, streak{}
	}
	for other := range callKinds {
		if m.fails(now, other) {
			return
		}
	}
	if m.outage.told {
		m.emit(action{kind: doLog, reason: ReasonUnreachable, until: m.outage.since})
	}
	m.outage.told = false
}

// denialLogged notes that a denial was logged. A line about each kind of call would say the same.
func (m *machine) denialLogged() {
	for k := range m.deniedLogged {
		m.deniedLogged[k] = true
	}
}

// untoldDoubt is for how much longer than usual a lease may have to be watched without a line. Some stores count
// in whole seconds, and beside other programs each vacancy is watched for a moment.
const untoldDoubt = 2 * time.Second

// noteDoubt notes whether the observed lease must be watched although nobody holds it, or for longer than its
// TTL: a later grant may be missing from the store. Other kinds of stores have other reasons to wait. It takes
// two readings: one alone may have been overtaken by a later one of this process, and is then taken for an older copy.
func (m *machine) noteDoubt(now time.Duration, e *elec) {
	l, usual := e.observed, untoldDoubt
	if !l.Vacant() {
		usual += l.TTL
	}
	switch doubted := m.observed && l.ObserveFor > usual; {
	case !doubted:
		m.endDoubt(e)
	case !e.doubted && now > e.unchangedSince:
		e.doubted = true
		m.emit(action{kind: doLog, e: e, reason: ReasonWentBack, until: e.unchangedSince + l.ObserveFor})
	}
}

func (m *machine) endDoubt(e *elec) {
	if e.doubted {
		m.emit(action{kind: doLog, e: e, reason: ReasonWentBack})
	}
	e.doubted = false
}
