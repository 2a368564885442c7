package curator

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// When the ensemble's leader last heard of a session: see docs/design/curator.md, "How
// long a session lives".

// An exchange is an answered request.
type exchange struct {
	sent, answered time.Time
	by             answeredBy
}

// answeredBy says which servers took part in an answer.
type answeredBy uint8

const (
	byServer   answeredBy = iota // the connected server alone: a read
	byLeader                     // the ensemble's leader as well: a sync
	byMajority                   // and a majority: a write
)

// noteHandshake notes a connect response, before the library has read it, and when the
// connect request was sent.
//
// A server that accepts an existing session has asked its leader, which thereby hears of
// the session (Leader.checkIfValidGlobalSession touches it). The next write proves that
// this is still the ensemble's leader. A new session is itself a write.
func (s *session) noteHandshake(id int64, granted time.Duration, sent time.Time) {
	s.change(func() {
		s.lastErr = nil
		if id == 0 {
			s.servers.Connected() // expired: the library requests another and need not wait
			return
		}
		s.epoch++
		if id != s.id {
			s.id, s.lastContact = id, sent
		}
		s.grantedLength, s.connectSent, s.exchanges = granted, sent, nil
	})
}

// noteAnswer notes that a request of session id, sent at sent, has just been answered, and
// what that proves.
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
	// A few exchanges of those in quick succession are enough.
	n := len(s.exchanges)
	if n == 0 || sent.Sub(s.exchanges[n-1].sent) >= half/8 || by > s.exchanges[n-1].by {
		s.exchanges = append(s.exchanges, exchange{sent, now, by})
	}
	if most := 32; len(s.exchanges) > most { // too many reads without a write
		s.exchanges = slices.Delete(s.exchanges, 0, len(s.exchanges)-most)
	}
}

// validFor returns how long after start session id certainly lives without further contact,
// counted from its last contact; not positive if unknown.
func (s *session) validFor(id int64, start time.Time) (left time.Duration, lastContact time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.id {
		return 0, s.lastContact
	}
	return s.grantedLength - elapsed(s.lastContact, start), s.lastContact
}

// elapsed returns how much time has passed, by the clock that says more: the monotonic
// clock stops while the machine is suspended (golang/go#24595), the servers' clocks do not,
// and the wall clock may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// contactLeader makes the ensemble's leader hear of session id: by a new connection, unless
// there was one since lastContact, and a write. Requests that are under way fail.
func (s *session) contactLeader(ctx context.Context, id int64, lastContact time.Time) error {
	s.mu.Lock()
	conn, again := s.connection, s.connectSent.After(lastContact)
	s.mu.Unlock()
	if conn != nil && !again {
		conn.Close()
	}
	err := s.wait(ctx, func() bool { return s.id != id || s.connectSent.After(lastContact) })
	if err == nil {
		_, _, err = s.write(ctx, &zk.CheckVersionRequest{Path: s.b.layout.sessionPath(sessionName(id)), Version: -1})
	}
	return err
}
