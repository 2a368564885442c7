package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// What the log says while the store is away, and while nobody can be elected because the store may have lost a
// grant: once when it begins, and once when it is over.

// An outage is a time without an answer of the store.
type outage struct {
	since time.Duration // when the first call was sent that has failed; never: the store answers
	told  bool          // it was logged
}

// noteFailure notes a call that has failed. One that is repeated with success is not worth a line.
func (m *machine) noteFailure(now time.Duration, c *call, err error) {
	m.outage.since = min(m.outage.since, c.sent)
	if !m.outage.told && now-m.outage.since >= m.RenewEvery && backend.Class(err) == backend.ErrUnavailable {
		m.outage.told = true
		m.emit(action{kind: doLog, reason: ReasonUnreachable, until: m.outage.since, err: err})
	}
}

func (m *machine) endOutage() {
	if m.outage.told {
		m.emit(action{kind: doLog, reason: ReasonUnreachable, until: m.outage.since})
	}
	m.outage = outage{since: never}
}

// untoldDoubt is for how much longer than usual a lease may have to be watched without a line. Some stores count
// in whole seconds, and beside other programs each vacancy is watched for a moment.
const untoldDoubt = 2 * time.Second

// noteDoubt notes whether the observed lease must be watched although nobody holds it, or for longer than its
// TTL: a later grant may be missing from the store. Other kinds of stores have other reasons to wait.
func (m *machine) noteDoubt(now time.Duration, e *elec) {
	l, usual := e.observed, untoldDoubt
	if !l.Vacant() {
		usual += l.TTL
	}
	doubted := m.observed && l.ObserveFor > usual
	if doubted && !e.doubted {
		m.emit(action{kind: doLog, e: e, reason: ReasonWentBack, until: now + l.ObserveFor})
	} else if !doubted {
		m.endDoubt(e)
	}
	e.doubted = doubted
}

func (m *machine) endDoubt(e *elec) {
	if e.doubted {
		m.emit(action{kind: doLog, e: e, reason: ReasonWentBack})
	}
	e.doubted = false
}
