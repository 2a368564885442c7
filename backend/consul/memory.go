package consul

import (
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// memory is what this process remembers of elections. It shows when the store has gone back,
// because a snapshot was restored or keys were deleted.
type memory struct {
	mu       sync.Mutex
	latest   map[string]lastRead
	sessions map[string]string // session by election: a guess which heartbeat key to read
}

type lastRead struct {
	term uint64
	ttl  time.Duration // the greatest that was read
}

// record notes what was read. If the store has gone back, the lease is watched for twice the
// greatest TTL that was read before.
func (m *memory) record(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest == nil {
		m.latest, m.sessions = make(map[string]lastRead), make(map[string]string)
	}
	l := &e.lease
	s := m.latest[e.name]
	if s.ttl = max(s.ttl, l.TTL, duration(e.term.TTL)); l.Term < s.term && l.Term <= backend.MaxTerm {
		e.held, e.mine, e.dataLost, e.lastTerm = true, false, true, s.term
		l.ObserveFor = max(l.ObserveFor, 2*s.ttl)
		l.Version += " back"
	} else if l.Term <= backend.MaxTerm {
		s.term = l.Term
	}
	if s.term > 0 {
		m.latest[e.name] = s
	}
	if e.lock.Session != "" {
		m.sessions[e.name] = e.lock.Session
	}
}

// recordGrant notes a grant to this process.
func (m *memory) recordGrant(name string, term uint64, ttl time.Duration, session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.latest[name] // it was read before the grant
	m.latest[name] = lastRead{max(s.term, term), max(s.ttl, ttl)}
	m.sessions[name] = session
}

// sessionOf returns the session that probably holds the election.
func (m *memory) sessionOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[name]
}
