package lease

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Session is the record of one process: a member, and the heartbeats of the leases that it holds. Heartbeat
// stands for all leases that the process renewed last. A lease that was not renewed together with them is
// listed in Apart: so a lease whose function hangs expires although the process continues.
type Session struct {
	ID         string               `json:"id"`
	Nonce      string               `json:"nonce"`
	Write      int64                `json:"write,omitempty"`      // as in Record
	Generation string               `json:"generation,omitempty"` // fresh when the session is made again
	Heartbeat  Heartbeat            `json:"heartbeat"`
	Apart      map[string]Heartbeat `json:"apart,omitempty"` // by election
	At         time.Time            `json:"at"`              // by the holder's clock: a hint

	Address   string `json:"address,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Elections string `json:"elections,omitempty"`
	TTL       Span   `json:"ttl,omitempty"` // 0: no member, until it announces itself
}

// Of returns the heartbeat of an election; 0 if there is no session.
func (s *Session) Of(election string) Heartbeat {
	if s == nil {
		return 0
	}
	if h, apart := s.Apart[election]; apart {
		return h
	}
	return s.Heartbeat
}

// Renew returns the value that gives the renewed elections a fresh heartbeat. The others, which
// the process may hold too, keep theirs. The shorter of the two lists is in Apart.
func (s *Session) Renew(renewed, others []string, now time.Time) Session {
	next := *s
	next.At = now.UTC().Round(0)
	fresh := NewHeartbeat()
	apart := make(map[string]Heartbeat)
	if len(others) <= len(renewed) {
		next.Heartbeat = fresh
	} else {
		for _, name := range renewed {
			apart[name] = fresh
		}
	}
	for _, name := range others {
		if h := s.Of(name); h != next.Heartbeat {
			apart[name] = h
		}
	}
	if next.Apart = apart; len(apart) == 0 {
		next.Apart = nil
	}
	return next
}

// successor returns the same member's session of a fresh generation, which renews nothing yet.
func (s *Session) successor() Session {
	next := *s
	next.Generation, next.Heartbeat, next.Apart = string(backend.NewNonce()[:16]), NewHeartbeat(), nil
	return next
}

// A Heartbeat is a random value. It is written as text, because JSON parsers round large numbers.
type Heartbeat uint64

// NewHeartbeat returns a fresh heartbeat, never 0.
func NewHeartbeat() Heartbeat { return Heartbeat(rand.Uint64() | 1) }

// MarshalText implements [encoding.TextMarshaler], in hexadecimal digits.
func (h Heartbeat) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(h), 16), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Heartbeat) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*h = Heartbeat(n)
	return err
}
