package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// bidAnswered handles the answer to a bid that was sent at sent.
func (m *machine) bidAnswered(now time.Duration, e *elec, a *backend.Answer, bid *backend.Bid, sent time.Duration) {
	class := backend.Class(a.Err)
	reason := ReasonVacant
	if a.Outcome == backend.Granted {
		reason = ReasonElected
	}
	m.emit(action{kind: doLog, e: e, term: a.Term, reason: reason, err: a.Err})
	m.reportDenied(e, callAcquire, a)
	switch a.Outcome {
	case backend.Granted:
		if m.bidGranted(now, e, a, bid.MinTerm, sent); e.phase != phaseLeading {
			m.endTry(e, nil)
		}
		return
	case backend.Refused:
		// If the lease has not changed, the same bid would be refused again: wait before the next one.
		futile := a.Err != nil || a.Unchanged(bid.Expected)
		m.on(e, notGranted)
		if a.Err == nil {
			m.observe(now, e, &a.Lease, sent)
		}
		e.futile = futile && a.Err == nil
		if futile {
			m.retryLater(now, e, class)
		} else {
			e.failures = 0
		}
	default:
		m.on(e, unanswered)
		e.expiresAt = sent + m.TTL  // if it was granted all the same
		m.retryLater(now, e, class) // longer each time: only this election may be blocked
	}
	if class == backend.ErrInvalid && e.mode != modeNone {
		m.endTry(e, a.Err)
		e.mode = modeNone
		m.reportNotice(e, ReasonInvalid, a.Err)
	}
	m.endTry(e, a.Err)
}

// retryLater delays e's next bid, longer after each failure.
func (m *machine) retryLater(now time.Duration, e *elec, class error) {
	e.failures = min(e.failures+1, maxCount)
	e.retryBidAt = now + m.backoff(int(e.failures))
	if class == backend.ErrDenied {
		e.retryBidAt = now + m.jitter(m.TTL) // an operator must act
	}
}

// deniedFromTheStart returns the error of a store that has answered no call, and denied the last one: credentials, rights
// or the schema were wrong when this process began. It returns nil for any other.
func (m *machine) deniedFromTheStart() error {
	if m.reached || backend.Class(m.lastContactErr) != backend.ErrDenied {
		return nil
	}
	return m.lastContactErr
}

// reportDenied tells watchers that the store denies a call for e, so an operator must act. It tells
// them once, until a call of the same kind has an outcome.
func (m *machine) reportDenied(e *elec, k callKind, a *backend.Answer) {
	switch {
	case a.Outcome != backend.Unknown && e.deniedCall == k+1:
		e.deniedCall = 0
	case a.Outcome == backend.Unknown && e.deniedCall == 0 && backend.Class(a.Err) == backend.ErrDenied:
		e.deniedCall = k + 1
		m.reportNotice(e, ReasonDenied, a.Err)
	}
}
