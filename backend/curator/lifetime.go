package curator

import (
	"context"
	"sync"
	"time"

	"github.com/go-election/go-election/internal/ensemble"
)

// A lifetime is what is known of how long a session lives: when the ensemble's leader has last heard of it. A
// write alone does not prove that it has: a follower that forwards a write, and is cut off the next moment,
// has reported nothing. docs/design/curator.md, "How long a session lives", has the argument.
type lifetime struct {
	session *ensemble.Session
	tick    time.Duration // the servers' tickTime, or more

	mu          sync.Mutex
	on          ensemble.Connection // the last one that was noted
	lastContact time.Time           // the ensemble's leader is known to have heard of the session since then

	// Requests of that connection, as docs/design/curator.md names them. Times of zero: there is none.
	k         exchange  // the next m comes half a tick or more after its answer
	heard     time.Time // when the k before that was sent, of which the leader has heard
	mAnswered time.Time // when its m was answered: a write n after that proves it
}

// An exchange is an answered request.
type exchange struct{ sent, answered time.Time }

// update notes another connection, before anything else is noted. The caller holds l.mu.
//
// A server that accepts an existing session has asked its leader, which thereby hears of the session
// (Leader.checkIfValidGlobalSession touches it). The next write proves that this is still the ensemble's
// leader. A new session is itself a write.
func (l *lifetime) update() {
	was := l.on
	if l.on = l.session.Connection(); l.on.ID != was.ID {
		l.lastContact = time.Time{} // the first write shows more
	}
	if l.on.Sent != was.Sent {
		l.k, l.heard, l.mAnswered = exchange{}, time.Time{}, time.Time{}
	}
}

// note notes that a request of session id, a sync or a write, was sent at sent and has just been answered.
func (l *lifetime) note(id int64, sent time.Time, write bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.update(); id != l.on.ID || sent.Before(l.on.From) {
		return
	}

	if write && l.on.Sent.After(l.lastContact) {
		l.lastContact = l.on.Sent
	}
	if write && l.heard.After(l.lastContact) && !l.mAnswered.After(sent) {
		l.lastContact = l.heard
	}
	switch {
	case l.k.sent.IsZero():
		l.k = exchange{sent, now}
	case sent.Sub(l.k.answered) >= l.tick/2: // this is m, and the next k
		l.heard, l.mAnswered = l.k.sent, now
		l.k = exchange{sent, now}
	}
}

// validFor returns how long after start session id certainly lives without further contact; ≤ 0: unknown.
func (l *lifetime) validFor(id int64, start time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.update(); id != l.on.ID {
		return 0
	}
	// The monotonic clock stops while the machine is suspended (golang/go#24595), the servers' clocks do not,
	// and the wall clock may be set: the one counts that says more.
	byWall := start.Round(0).Sub(l.lastContact.Round(0))
	return l.on.Length - max(start.Sub(l.lastContact), byWall)
}

// sync brings the server that answers up to date with the ensemble's leader.
func (l *lifetime) sync(ctx context.Context) error {
	id, sent := l.session.Connection().ID, time.Now()
	err := l.session.Sync(ctx)
	if err == nil {
		l.note(id, sent, false)
	}
	return err
}

// write makes all operations or none, in session id. If err is not nil, failed is the operation that could
// not be made, or -1: the outcome is unknown.
func (l *lifetime) write(ctx context.Context, id int64, ops ...any) (failed int, err error) {
	sent := time.Now()
	_, failed, err = l.session.Multi(ctx, id, ops...)
	if err == nil {
		l.note(id, sent, true)
	}
	return failed, err
}
