package curator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/internal/ensemble"
)

// A lifetime is what is known of how long a session lives: when the ensemble's leader has last heard of it. A
// write alone does not prove that it has: a follower that forwards a write, and is cut off the next moment, has
// reported nothing. docs/design/curator.md, "How long a session lives", has the argument.
type lifetime struct {
	session *ensemble.Session
	tick    time.Duration // the servers' tickTime, or more

	mu          sync.Mutex
	on          ensemble.Connection // the last one that was noted
	lastContact time.Time           // the ensemble's leader is known to have heard of the session since then
	exchanges   []exchange          // on that connection, oldest first, none before lastContact
}

// An exchange is an answered request.
type exchange struct {
	sent, answered time.Time
	write          bool
}

// update notes another connection, before anything else is noted. The caller holds l.mu.
//
// A server that accepts an existing session has asked its leader, which thereby hears of the session
// (Leader.checkIfValidGlobalSession touches it). The next write proves that this is still the ensemble's leader. A
// new session is itself a write.
func (l *lifetime) update() {
	was := l.on
	if l.on = l.session.Connection(); l.on.ID != was.ID {
		l.lastContact = time.Time{} // the first write shows more
	}
	if l.on.Sent != was.Sent {
		l.exchanges = nil
	}
}

// note notes that a request of session id, a sync or a write, was sent at sent and has just been answered.
func (l *lifetime) note(id int64, sent time.Time, write bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.update(); id != l.on.ID || sent.Before(l.on.Sent) {
		return
	}

	half := l.tick / 2
	if write {
		if l.on.Sent.After(l.lastContact) {
			l.lastContact = l.on.Sent
		}
		for _, k := range l.exchanges {
			for _, m := range l.exchanges {
				if m.sent.Sub(k.answered) >= half && !m.answered.After(sent) && k.sent.After(l.lastContact) {
					l.lastContact = k.sent
				}
			}
		}
		l.exchanges = slices.DeleteFunc(l.exchanges, func(e exchange) bool { return e.sent.Before(l.lastContact) })
	}

	// A few exchanges of those in quick succession are enough.
	n := len(l.exchanges)
	if n == 0 || sent.Sub(l.exchanges[n-1].sent) >= half/8 || write && !l.exchanges[n-1].write {
		l.exchanges = append(l.exchanges, exchange{sent, now, write})
	}
	if most := 32; len(l.exchanges) > most { // too many syncs without a write
		l.exchanges = slices.Delete(l.exchanges, 0, len(l.exchanges)-most)
	}
}

// validFor returns how long after start session id certainly lives without further contact; not positive if
// unknown.
func (l *lifetime) validFor(id int64, start time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.update(); id != l.on.ID {
		return 0
	}
	return l.on.Length - elapsed(l.lastContact, start)
}

// elapsed returns how much time has passed, by the clock that says more: the monotonic clock stops while the
// machine is suspended (golang/go#24595), the servers' clocks do not, and the wall clock may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// reconnect makes the next write a proof of contact: by a new connection, unless there was one since the last
// proof. Requests that are under way fail.
func (l *lifetime) reconnect() {
	l.mu.Lock()
	l.update()
	fresh := l.on.Sent.After(l.lastContact)
	l.mu.Unlock()
	if !fresh {
		l.session.Drop()
	}
}

// sync brings the server that answers up to date with the ensemble's leader.
func (l *lifetime) sync(ctx context.Context) error {
	id := l.session.Connection().ID
	sent, err := ensemble.Read(ctx, l.session, func(c *zk.Conn) (time.Time, error) {
		sent := time.Now()
		_, err := c.Sync("/")
		return sent, err
	})
	if err == nil {
		l.note(id, sent, false)
	}
	return err
}

// write makes all operations or none, in session id. done is called when the request is answered, which may be
// after write has returned. failed is the first operation that could not be made, or -1 if the outcome is unknown.
func (l *lifetime) write(ctx context.Context, done func(), ops ...any) (results []zk.MultiResponse, id int64, failed int, err error) {
	client, err := l.session.Ready(ctx)
	if err != nil {
		done()
		return nil, 0, -1, err
	}
	id, sent := client.SessionID(), time.Now()
	results, err = ensemble.CallOn(ctx, l.session, client, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		defer done()
		return c.Multi(ops...)
	})
	if failed, err = ensemble.FailedOp(len(ops), results, err); err == nil {
		l.note(id, sent, true)
	}
	return results, id, failed, err
}
