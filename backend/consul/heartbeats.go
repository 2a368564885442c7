package consul

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// renewals is the value of a session's heartbeat key. One heartbeat stands for all elections
// that the holder renews, so that renewing a thousand costs no more than one. Elections that
// were not renewed with the others are listed apart, with heartbeats of their own. So a lease
// that its holder no longer renews, for example because its function hangs, expires while the
// process goes on.
type renewals struct {
	ID        string               `json:"id"`
	Nonce     string               `json:"nonce"`
	Heartbeat heartbeat            `json:"heartbeat"`
	Apart     map[string]heartbeat `json:"apart,omitempty"`
	At        time.Time            `json:"at"` // by the holder's clock: a hint
}

// heartbeatOf returns an election's heartbeat.
func (r *renewals) heartbeatOf(name string) heartbeat {
	if r == nil {
		return 0
	}
	if b, apart := r.Apart[name]; apart {
		return b
	}
	return r.Heartbeat
}

// withRenewed returns the next value: these elections get a fresh heartbeat, and all others
// that are held keep theirs.
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
	if len(rest) <= len(names) { // list the fewer apart
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

// newHeartbeat draws a heartbeat at random.
func newHeartbeat() heartbeat { return heartbeat(rand.Uint64() | 1) }

// heartbeats is what this process knows of its own heartbeat key and of the leases it may hold.
type heartbeats struct {
	mu      sync.Mutex
	last    renewals
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
func (s *heartbeats) start(first renewals, results []*api.KVPair) {
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
func (s *heartbeats) markHeld(e *entry, changesIndex uint64, at time.Time) heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[e.name] = holding{e, changesIndex, at}
	return s.last.heartbeatOf(e.name)
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
func (s *heartbeats) nextWrite(names []string) (renewals, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.withRenewed(names, s.held, time.Now()), s.index
}

// recordWrite notes the value of the key. Index 0: the value is unknown.
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
