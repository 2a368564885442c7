package consul

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// renewals is the value of a session's heartbeat key: what its holder has renewed
// last. One value stands for all elections that it holds, so that to renew a
// thousand costs no more than to renew one. Elections that were not renewed
// together with the others are listed with heartbeats of their own: a lease that its
// holder has ceased to renew, such as one whose function hangs, runs out though
// the process goes on.
type renewals struct {
	ID        string               `json:"id"`
	Nonce     string               `json:"nonce"`
	Heartbeat heartbeat            `json:"heartbeat"`
	Apart     map[string]heartbeat `json:"apart,omitempty"`
	At        time.Time            `json:"at"` // by the holder's clock: a hint
}

// of returns an election's heartbeat.
func (r *renewals) heartbeatOf(name string) heartbeat {
	if r == nil {
		return 0
	}
	if b, apart := r.Apart[name]; apart {
		return b
	}
	return r.Heartbeat
}

// with returns what to write so that those elections have a fresh heartbeat, and all
// others that are held keep theirs.
func (r *renewals) withRenewed(names []string, held map[string]holding, now time.Time) renewals {
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	rest := make([]string, 0)
	for name := range held {
		if !renewed[name] {
			rest = append(rest, name)
		}
	}
	next := renewals{ID: r.ID, Nonce: r.Nonce, Heartbeat: r.Heartbeat, At: now.UTC().Round(0)}
	fresh := newHeartbeat()
	set := func(name string, b heartbeat) {
		if b == next.Heartbeat {
			return
		}
		if next.Apart == nil {
			next.Apart = make(map[string]heartbeat)
		}
		next.Apart[name] = b
	}
	if len(rest) <= len(names) { // the shorter list
		next.Heartbeat = fresh
	} else {
		for _, name := range names {
			set(name, fresh)
		}
	}
	for _, name := range rest {
		set(name, r.heartbeatOf(name))
	}
	return next
}

// newHeartbeat draws a heartbeat.
func newHeartbeat() heartbeat { return heartbeat(rand.Uint64() | 1) }

// heartbeats is what this process knows of its own heartbeat key, and what it may hold.
type heartbeats struct {
	mu      sync.Mutex
	last    renewals
	index   uint64 // of the key; 0: not known, it must be read
	highest uint64 // the greatest that it has had
	held    map[string]holding
}

// A holding is an election that this process holds, or may hold after a bid
// without an answer.
type holding struct {
	*entry // as it was read or written last; nil: not known, it must be read

	// It was certainly ours after all changes by members up to the one with this
	// index (see changed; 0: nothing is certain), and not before that moment.
	mark uint64
	at   time.Time
}

// begin takes over the key of a new session, on which nothing hangs yet.
func (s *heartbeats) start(first renewals, results []*api.KVPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.index = first, lastIndex(results)
	s.highest = s.index
	if s.held == nil {
		s.held = make(map[string]holding)
	}
}

// may notes bids before they are sent, so that no renewal of others renews them.
func (s *heartbeats) markPending(bids []*offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range bids {
		if o.markedPending {
			continue // in this call
		}
		o.markedPending = true
		if _, o.pendingBefore = s.held[o.name]; !o.pendingBefore {
			s.held[o.name] = holding{}
		}
	}
}

// refused notes that a bid was. An earlier one, of which that is not known, may still come.
func (s *heartbeats) recordRefusal(o *offer) {
	if !o.pendingBefore {
		s.remove(o.name)
	}
}

// holds notes a grant, or what was read of a lease that is ours, and up to when
// that is certain. It returns the heartbeat that the election has by now.
func (s *heartbeats) markHeld(e *entry, mark uint64, at time.Time) heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[e.name] = holding{e, mark, at}
	return s.last.heartbeatOf(e.name)
}

// doubt notes that a lease must be read before it is renewed again.
func (s *heartbeats) invalidate(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.held[name]; held {
		s.held[name] = holding{}
	}
}

// gone notes that an election is certainly not held.
func (s *heartbeats) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
}

func (s *heartbeats) lookup(name string) (holding, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[name]
	return h, ok
}

func (s *heartbeats) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) == 0
}

// greatest returns the greatest index that the key has had. An older one is of a snapshot.
func (s *heartbeats) highestIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.highest
}

// next returns what to write to renew those elections, and the index to pin it to.
func (s *heartbeats) next(names []string) (renewals, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.withRenewed(names, s.held, time.Now()), s.index
}

// wrote notes what the key holds. Index 0: that is not known any more.
func (s *heartbeats) recordWrite(r renewals, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.highest = max(s.highest, index)
	if s.index = index; index != 0 {
		s.last = r
	}
}

// lastIndex returns the index of a transaction that has written.
func lastIndex(results []*api.KVPair) (index uint64) {
	for _, pair := range results {
		if pair != nil {
			index = max(index, pair.ModifyIndex)
		}
	}
	return index
}
