package ensemble

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"time"
)

// A succession is the search for a connection that takes the place of another one, in its session. The other
// one is closed when its successor has the session, and not before: a server that is merely slow, and has no
// place for another connection (maxClientCnxns), would give away the place of the one that is closed.
type succession struct {
	old   *conn
	turn  int           // of the session, when it began
	since time.Time     // old was silent since; zero: it may answer, and each server is asked once
	ended chan struct{} // closed when there is a successor, or none is needed
	slow  bool          // calls no longer wait for it
}

// patience is how long calls wait for a successor before they try the silent connection again.
const patience = 250 * time.Millisecond

// succeed begins to look for a successor of the present connection. The caller holds s.mu.
func (s *Session) succeed(since time.Time) {
	q := &succession{old: s.conn, turn: s.turn, since: since, ended: make(chan struct{})}
	s.succession = q
	go s.askServers(q)
	time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		q.slow = true
		s.wake()
	})
}

// succeedIfSilent has the connection succeeded if ctx was exceeded and nothing was received since began.
func (s *Session) succeedIfSilent(ctx context.Context, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	exceeded := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if exceeded && s.connected && s.succession == nil && s.conn.silentSince(began) {
		s.succeed(began)
	}
}

func (c *conn) silentSince(began time.Time) bool {
	return c.opened.Add(time.Duration(c.lastRead.Load())).Before(began)
}

// Replace has the connection succeeded by another one, and reports whether that is there before ctx ends.
func (s *Session) Replace(ctx context.Context) bool {
	s.mu.Lock()
	was := s.conn
	if s.succession == nil && s.connected {
		s.succeed(time.Time{})
	}
	now := s.succession
	s.mu.Unlock()
	if now != nil {
		select {
		case <-now.ended:
		case <-ctx.Done():
			return false
		}
	}
	_, err := s.Ready(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.conn != was
}

// askServers asks the servers in turn for the session, until one grants it or that is not needed.
func (s *Session) askServers(q *succession) {
	defer close(q.ended)
	servers := s.access.Servers
	at := slices.Index(servers, q.old.address)
	for try := 1; ; try++ {
		next, err := s.openNext(servers[(at+try)%len(servers)], q.old.grant)
		round := try%len(servers) == 0
		changed, over := s.settle(q, next, err, round)
		if over {
			return
		}
		if round {
			select {
			case <-changed:
			case <-time.After(time.Second):
			}
		}
	}
}

// openNext returns a connection to a server that has answered a request for the session of a grant.
func (s *Session) openNext(address string, grant []byte) (*conn, error) {
	raw, err := s.reach(address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	next := s.newConn(raw, address)
	s.mu.Unlock()

	request := binary.BigEndian.AppendUint64([]byte{0, 0, 0, 44, 0, 0, 0, 0}, uint64(next.zxid.Load()))
	if _, err = raw.Write(append(request, grant[:32]...)); err == nil {
		err = next.readGrant()
	}
	if err != nil {
		raw.Close()
		return nil, next.refusal(err)
	}
	next.requested = true
	return next, nil
}

// settle hands a successor to the library, whose connection it closes for that. It reports whether the
// succession is over, and otherwise what is closed when something changes. round: all servers were asked.
func (s *Session) settle(
	q *succession, next *conn, err error, round bool,
) (changed chan struct{}, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case next != nil && s.turn != q.turn:
		next.Close()
	case next != nil:
		s.next = next
		q.old.Close()
		s.disconnected()
	case s.idle(q.turn) || !s.connected:
	case q.since.IsZero() && round, !q.since.IsZero() && !q.old.silentSince(q.since):
		s.why = nil // the present connection is good enough
	default:
		s.why = err
		return s.changed, false
	}
	s.succession = nil
	s.wake()
	return nil, true
}

// takeNext returns the successor for the client of a turn, if there is one. The error says that it needs no
// connection.
func (s *Session) takeNext(turn int) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.succession != nil { // the old connection has ended before that
		ended := s.succession.ended
		s.mu.Unlock()
		<-ended
		s.mu.Lock()
	}
	if next := s.next; next != nil && s.turn == turn {
		if next.address == s.conn.address || next.zxid.Load() >= s.conn.zxid.Load() {
			s.next, s.conn, next.from = nil, next, time.Now()
			return next, nil
		}
		s.dropNext() // its server may lack what was seen since it was asked
	}
	if s.idle(turn) {
		s.wake() // a call that has waited for so long asks again
		return nil, errIdle
	}
	return nil, nil
}

// dropNext closes a successor that nobody has taken. The caller holds s.mu.
func (s *Session) dropNext() {
	if s.next != nil {
		s.next.Close()
	}
	s.next = nil
}
