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
	by             answerer
}

// An answerer says who was asked before a request was answered.
type answerer uint8

const (
	byServer   answerer = iota // the server that we talk to, alone: a reading
	byLeader                   // the ensemble's leader as well: a sync
	byMajority                 // and a majority: a write
)

// hello is called with what the server said to a request to connect that was
// sent at sent, before the library has seen it.
//
// A server that accepts a session that was there before has asked its leader,
// which thereby hears of it (Leader.checkIfValidGlobalSession touches it). Whether
// that still is the ensemble's leader, the next write tells. A new session is a
// write itself.
func (s *session) hello(id int64, granted time.Duration, sent time.Time) {
	s.change(func() {
		s.lastErr = nil
		if id == 0 {
			s.hosts.Connected() // expired; the library asks for another, and need not wait for that
			return
		}
		s.epoch++
		if id != s.id {
			s.id, s.touched = id, sent
		}
		s.granted, s.greeted, s.answers = granted, sent, nil
	})
}

// answered notes that a request under session id was sent and has been answered just
// now, and what that proves: see the package documentation.
func (s *session) answered(id int64, sent time.Time, by answerer) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.id || sent.Before(s.greeted) {
		return
	}
	half := s.b.options.Tick / 2
	if by == byMajority {
		if s.greeted.After(s.touched) {
			s.touched = s.greeted
		}
		for _, k := range s.answers {
			for _, m := range s.answers {
				if m.by != byServer && m.sent.Sub(k.answered) >= half && !m.answered.After(sent) && k.sent.After(s.touched) {
					s.touched = k.sent
				}
			}
		}
		s.answers = slices.DeleteFunc(s.answers, func(e exchange) bool { return e.sent.Before(s.touched) })
	}
	// A few of those that come in quick succession are enough.
	n := len(s.answers)
	if n == 0 || sent.Sub(s.answers[n-1].sent) >= half/8 || by > s.answers[n-1].by {
		s.answers = append(s.answers, exchange{sent, now, by})
	}
	if most := 32; len(s.answers) > most { // who never writes need not be believed
		s.answers = slices.Delete(s.answers, 0, len(s.answers)-most)
	}
}

// trust is how long after start session id certainly lives if it is never heard
// of again; not positive if unknown. It counts from touched.
func (s *session) trust(id int64, start time.Time) (left time.Duration, touched time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.id {
		return 0, s.touched
	}
	return s.granted - elapsed(s.touched, start), s.touched
}

// elapsed is how much time has passed, by the clock that says more: one stands still
// while the machine is suspended (golang/go#24595), in which the servers count on, and
// the other may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// prove makes the ensemble's leader hear of session id: by connecting again, unless
// it has heard since touched, and a write. What is under way on the connection fails.
func (s *session) preflight(ctx context.Context, id int64, touched time.Time) error {
	s.mu.Lock()
	l, again := s.line, s.greeted.After(touched)
	s.mu.Unlock()
	if l != nil && !again {
		l.Close()
	}
	err := s.wait(ctx, func() bool { return s.id != id || s.greeted.After(touched) })
	if err == nil {
		_, _, err = s.write(ctx, &zk.CheckVersionRequest{Path: s.b.layout.sessionOf(sessionName(id)), Version: -1})
	}
	return err
}
