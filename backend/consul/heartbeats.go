package consul

import (
	"sync"
	"time"

	"github.com/go-election/go-election/backend/lease"

	"github.com/hashicorp/consul/api"
)

// heartbeats is what this process knows of its own heartbeat key and of the leases it may hold.
type heartbeats struct {
	mu      sync.Mutex
	last    lease.Session
	index   uint64 // of the key; 0: unknown, it must be read
	highest uint64 // the greatest index that the key has had
	held    map[string]holding
}

// A holding is an election that this process holds, or may hold after a bid without an answer.
type holding struct {
	*entry // as it was last read or written; nil: unknown, it must be read

	// The lease was verified at that moment or later, with election/changes at this index:
	// see changesOp. Index 0: it was never verified.
	changesIndex uint64
	at           time.Time
}

// start takes over the key of a new session, which holds no lease yet.
func (s *heartbeats) start(first lease.Session, results []*api.KVPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.index = first, lastIndex(results)
	s.highest = s.index
	if s.held == nil {
		s.held = make(map[string]holding)
	}
}

// markPending notes bids before they are sent, so that renewals of other leases do not renew them.
func (s *heartbeats) markPending(bids []*offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range bids {
		if o.markedPending {
			continue
		}
		o.markedPending = true
		if _, o.pendingBefore = s.held[o.name]; !o.pendingBefore {
			s.held[o.name] = holding{}
		}
	}
}

// recordRefusal notes that a bid was refused. An earlier bid without an answer may still arrive.
func (s *heartbeats) recordRefusal(o *offer) {
	if !o.pendingBefore {
		s.remove(o.name)
	}
}

// markHeld notes a lease that was granted, or read and found to be held, and when it was
// verified. It returns the election's present heartbeat.
func (s *heartbeats) markHeld(e *entry, changesIndex uint64, at time.Time) lease.Heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[e.name] = holding{e, changesIndex, at}
	return s.last.Of(e.name)
}

// invalidate notes that a lease must be read before it is renewed again.
func (s *heartbeats) invalidate(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.held[name]; held {
		s.held[name] = holding{}
	}
}

// remove notes that an election is certainly not held.
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

// highestIndex returns the greatest index that the key has had. A lower one comes from a
// restored snapshot.
func (s *heartbeats) highestIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.highest
}

// nextWrite returns the value that renews these elections, and the index that the key must have.
func (s *heartbeats) nextWrite(names []string) (lease.Session, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	var others []string
	for name := range s.held {
		if !renewed[name] {
			others = append(others, name)
		}
	}
	return s.last.Renew(names, others, time.Now()), s.index
}

// recordWrite notes the value of the key. Index 0: the value is unknown.
func (s *heartbeats) recordWrite(r lease.Session, index uint64) {
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
