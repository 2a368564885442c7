package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// bidAnswered handles the answer to a bid that was sent at sent.
func (m *machine) bidAnswered(now, sent time.Duration, e *elec, a *backend.Answer, bid *backend.Bid) {
	if a.Outcome == backend.Granted {
		m.emit(action{kind: doLogBid, e: e, term: a.Term, reason: ReasonElected})
		m.denialOver(e, callAcquire)
		m.bidGranted(now, sent, e, a, bid.MinTerm)
		if e.phase != phaseLeading {
			m.endTry(e, nil)
		}
		return
	}

	m.emit(action{kind: doLogBid, e: e, err: a.Err})
	if a.Outcome == backend.Refused {
		m.denialOver(e, callAcquire)
		m.on(e, notGranted)
		m.bidRefused(now, sent, e, a, bid)
	} else {
		m.reportDenied(e, callAcquire, a.Err)
		m.on(e, unanswered)
		e.expiresAt = sent + m.TTL  // if it was granted all the same
		m.retryLater(now, e, a.Err) // longer each time: only this election may be blocked
	}

	invalid := e.mode != modeNone && backend.Class(a.Err) == backend.ErrInvalid
	m.endTry(e, a.Err)
	if invalid {
		e.mode = modeNone
		m.reportNotice(e, ReasonInvalid, a.Err)
	}
}

// bidRefused observes the lease that kept the bid out. While it is as the bid expected it, the same bid would
// be refused again, so the next one waits.
func (m *machine) bidRefused(now, sent time.Duration, e *elec, a *backend.Answer, bid *backend.Bid) {
	if a.Err != nil {
		e.futile = false
		m.retryLater(now, e, a.Err)
		return
	}
	unchanged := a.Unchanged(bid.Expected)
	m.observe(now, e, &a.Lease, sent)
	e.futile = unchanged
	if unchanged {
		m.retryLater(now, e, nil)
	} else {
		e.failures = 0
	}
}

// retryLater delays e's next bid, longer after each failure. err is why this one had no success.
func (m *machine) retryLater(now time.Duration, e *elec, err error) {
	e.failures++
	e.retryBidAt = now + m.backoff(int(e.failures))
	if backend.Class(err) == backend.ErrDenied {
		e.retryBidAt = now + m.jitter(m.RenewEvery) // an operator must act, or it has passed already
	}
}

// deniedFromTheStart returns the error of a store that has answered no call, and denied the last one:
// credentials, rights or the schema were wrong when this process began. It returns nil for any other.
func (m *machine) deniedFromTheStart() error {
	if m.reached || backend.Class(m.lastContactErr) != backend.ErrDenied {
		return nil
	}
	return m.lastContactErr
}

// reportDenied tells watchers if err is a denial of a call for e, so that an operator must act. It tells them
// once, until a call of the same kind has an outcome.
func (m *machine) reportDenied(e *elec, k callKind, err error) {
	if e.denied || backend.Class(err) != backend.ErrDenied {
		return
	}
	e.denied, e.deniedCall = true, k
	m.reportNotice(e, ReasonDenied, err)
}

// denialOver notes that a call of kind k has an outcome.
func (m *machine) denialOver(e *elec, k callKind) {
	if e.deniedCall == k {
		e.denied = false
	}
}
