package zookeeper

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// What is known of when the ensemble's leader has heard of a session: see the package
// documentation, "How long the session lives".

// An exchange is a request that was answered.
type exchange struct {
	sent, answered time.Time
	by             answeredBy
}

// An answerer says who was asked before a request was answered.
type answeredBy uint8

const (
	byServer   answeredBy = iota // the server that we talk to, alone: a reading
	byLeader                     // the ensemble's leader as well: a sync
	byMajority                   // and a majority: a write
)

// hello is called with what the server said to a request to connect that was
// sent at sent, before the library has seen it.
//
// A server that accepts a session that was there before has asked its leader,
// which thereby hears of it (Leader.checkIfValidGlobalSession touches it). Whether
// that still is the ensemble's leader, the next write tells. A new session is a
// write itself.
func (s *session) noteHandshake(id int64, granted time.Duration, sent time.Time) {
	s.change(func() {
		s.lastErr = nil
		if id == 0 {
			s.servers.Connected() // expired; the library asks for another, and need not wait for that
			return
		}
		s.epoch++
		if id != s.id {
			s.id, s.lastContact = id, sent
		}
		s.grantedLength, s.connectSent, s.exchanges = granted, sent, nil
	})
}

// answered notes that a request under session id was sent and has been answered just
// now, and what that proves: see the package documentation.
func (s *session) noteAnswer(id int64, sent time.Time, by answeredBy) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.id || sent.Before(s.connectSent) {
		return
	}
	half := s.b.options.Tick / 2
	if by == byMajority {
		if s.connectSent.After(s.lastContact) {
			s.lastContact = s.connectSent
		}
		for _, k := range s.exchanges {
			for _, m := range s.exchanges {
				if m.by != byServer && m.sent.Sub(k.answered) >= half && !m.answered.After(sent) && k.sent.After(s.lastContact) {
					s.lastContact = k.sent
				}
			}
		}
		s.exchanges = slices.DeleteFunc(s.exchanges, func(e exchange) bool { return e.sent.Before(s.lastContact) })
	}
	// A few of those that come in quick succession are enough.
	n := len(s.exchanges)
	if n == 0 || sent.Sub(s.exchanges[n-1].sent) >= half/8 || by > s.exchanges[n-1].by {
		s.exchanges = append(s.exchanges, exchange{sent, now, by})
	}
	if most := 32; len(s.exchanges) > most { // who never writes need not be believed
		s.exchanges = slices.Delete(s.exchanges, 0, len(s.exchanges)-most)
	}
}

// trust is how long after start session id certainly lives if it is never heard
// of again; not positive if unknown. It counts from touched.
func (s *session) validFor(id int64, start time.Time) (left time.Duration, touched time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.id {
		return 0, s.lastContact
	}
	return s.grantedLength - elapsed(s.lastContact, start), s.lastContact
}

// elapsed is how much time has passed, by the clock that says more: one stands still
// while the machine is suspended (golang/go#24595), in which the servers count on, and
// the other may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// prove makes the ensemble's leader hear of session id: by connecting again, unless
// it has heard since touched, and a write. What is under way on the connection fails.
func (s *session) contactLeader(ctx context.Context, id int64, touched time.Time) error {
	s.mu.Lock()
	l, again := s.connection, s.connectSent.After(touched)
	s.mu.Unlock()
	if l != nil && !again {
		l.Close()
	}
	err := s.wait(ctx, func() bool { return s.id != id || s.connectSent.After(touched) })
	if err == nil {
		_, _, err = s.write(ctx, &zk.CheckVersionRequest{Path: s.b.layout.sessionPath(sessionName(id)), Version: -1})
	}
	return err
}
