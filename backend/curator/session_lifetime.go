package curator

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/internal/ensemble"
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

// A lifetime is what is known of how long a session lives.
type lifetime struct {
	on          ensemble.Connection // the last one that was noted
	lastContact time.Time           // the ensemble's leader is known to have heard of the session since then
	exchanges   []exchange          // on that connection, oldest first, none before lastContact
}

// update notes another connection, before anything else is noted. The caller holds s.mu.
//
// A server that accepts an existing session has asked its leader, which thereby hears of
// the session (Leader.checkIfValidGlobalSession touches it). The next write proves that
// this is still the ensemble's leader. A new session is itself a write.
func (s *session) update() {
	was := s.on
	if s.on = s.Connection(); s.on.ID != was.ID {
		s.lastContact = s.on.Began
	}
	if s.on.Sent != was.Sent {
		s.exchanges = nil
	}
}

// noteAnswer notes that a request of session id, sent at sent, has just been answered, and
// what that proves.
func (s *session) noteAnswer(id int64, sent time.Time, by answeredBy) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.update(); id != s.on.ID || sent.Before(s.on.Sent) {
		return
	}
	half := s.tick / 2
	if by == byMajority {
		if s.on.Sent.After(s.lastContact) {
			s.lastContact = s.on.Sent
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
	if s.update(); id != s.on.ID {
		return 0, s.lastContact
	}
	return s.on.Length - elapsed(s.lastContact, start), s.lastContact
}

// elapsed returns how much time has passed, by the clock that says more: the monotonic
// clock stops while the machine is suspended (golang/go#24595), the servers' clocks do not,
// and the wall clock may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// answeredSince reports whether the servers have answered a request that this session has
// sent since t.
func (s *session) answeredSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update()
	n := len(s.exchanges)
	return n > 0 && s.exchanges[n-1].sent.After(t)
}

// contactLeader makes the ensemble's leader hear of session id: by a new connection, unless
// there was one since lastContact, and a write. Requests that are under way fail.
func (s *session) contactLeader(ctx context.Context, layout *layout, id int64, lastContact time.Time) error {
	if !s.Connection().Sent.After(lastContact) {
		s.Drop()
	}
	_, _, err := s.write(ctx, &zk.CheckVersionRequest{Path: layout.sessionPath(sessionName(id)), Version: -1})
	return err
}
