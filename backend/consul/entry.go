package consul

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// An entry is all that was read of one election, and what it means.
type entry struct {
	name          string
	lockPair      *api.KVPair // nil: no such key
	termPair      *api.KVPair
	heartbeatPair *api.KVPair // of the session that the lock's value names
	changes       *api.KVPair // the key of that name, read with the others or before; see virgin
	lock          lock
	term          term
	renewals      *renewals // of that session; nil: none

	odd   bool   // the lock key is there, and none of ours has written that
	held  bool   // a leadership has not ended in order: its holder may trust it
	mine  bool   // and it is this Backend's
	last  uint64 // the greatest term known
	lost  bool   // the store has forgotten what this process has seen, or a key is gone
	lease backend.Lease
}

// parse reads what anybody may have written. What is not valid is as if it were
// not there, but for the keys that are.
func (e *entry) parse() {
	switch {
	case !decode(e.lockPair, &e.lock):
		e.lock, e.odd = lock{}, e.lockPair != nil
	case e.lock.Holder.Nonce == "": // released
		e.lock = lock{Term: e.lock.Term}
	}
	e.lock.At = backend.CleanTime(e.lock.At)
	if s := e.lock.Session; len(s) > 64 || strings.Contains(s, "/") {
		e.lock.Session = ""
	}
	if !decode(e.termPair, &e.term) {
		e.term = term{}
	}
	e.term.clean()
}

// judge makes the lease of what was read.
//
// A lease is free only if its record says that the last leadership ended in order, and its
// lock says the same, or if there never was one. All else is watched: for a TTL if its lock
// hangs on the session of its holder, so that a renewal of that session would show; for two
// if somebody has been at the keys, which a holder of many may notice a TTL later: a lock
// key that was deleted, unlocked or written over, and a record that is older than
// what this process has seen. Where lock and record tell different stories, nobody knows
// how long who holds it trusts it: then the greatest TTL counts.
//
// may is whether this process may hold it, having bid for it. What names its nonce
// otherwise was put there by hand, and another may lead.
func (e *entry) judge(self string, may bool, m *memory, now time.Time) {
	okLock, okTerm := e.lock.Holder.Nonce != "", e.term.Term > 0
	agree := okLock && okTerm && e.lock.Term == e.term.Term && e.lock.Holder.Nonce == e.term.Nonce && e.lock.TTL == e.term.TTL && e.lock.TTL > 0 && e.term.End == ""
	e.held, e.mine, e.lost = false, false, false
	l := &e.lease
	*l = backend.Lease{Election: e.name, Term: max(e.lock.Term, e.term.Term), Heartbeat: 1, Ref: e.ref()}
	e.last = l.Term
	written := e.term.To
	switch {
	case !okLock && e.lockPair != nil && e.lockPair.Session != "": // locked by somebody else, or scribbled over
		e.held, e.lost = true, true
		l.ObserveFor = 2 * longest
	case okLock: // also if the record is gone or tells another story
		e.held, e.mine = true, e.lock.Holder.Nonce == self && agree && may
		h := e.lock.Holder
		l.Holder = backend.Candidate{ID: h.ID, Nonce: h.Nonce, Address: h.Address, Metadata: h.Metadata}
		l.TTL, l.Renew = duration(e.lock.TTL), duration(e.lock.Renew)
		if l.ObserveFor = l.TTL; !agree {
			l.ObserveFor = longest // scribbled over
		}
		if !e.hangs() { // it has ended, or somebody has been here
			l.ObserveFor *= 2
		}
		l.Heartbeat = mix(e.lock.Heartbeat, 0)
		if e.hangs() {
			l.Heartbeat = mix(e.lock.Heartbeat, e.renewals.of(e.name))
		}
		if p := e.term.Last; p != nil {
			l.End, l.LastID, l.LastNonce = p.End, p.ID, p.Nonce
		}
		if written = e.lock.At; e.renewals != nil && e.renewals.At.After(written) {
			written = e.renewals.At
		}
	case okTerm && e.term.End == "": // its lock key is gone
		e.held, e.mine, e.lost = true, e.term.Nonce == self && may, true
		l.ObserveFor = twice(e.term.TTL)
		l.Heartbeat = mix(e.term.Heartbeat, 1)
		l.End, l.LastID, l.LastNonce = backend.Failed, e.term.ID, e.term.Nonce
		written = e.term.From
	case okTerm && e.lockPair != nil && !e.odd && e.lock.Term == e.term.Term && slices.Contains(ends, e.term.End):
		l.Heartbeat = mix(e.term.Heartbeat, 0)
		l.End, l.LastID, l.LastNonce = e.term.End, e.term.ID, e.term.Nonce
	case e.termPair != nil, e.odd, e.lock.Term > 0: // scribbled over, or what they tell does not fit
		e.held, e.lost = true, true
		l.ObserveFor = 2 * longest
		if okTerm && e.lockPair == nil { // deleted by somebody; of a leadership that has ended, perhaps
			l.ObserveFor = twice(e.term.TTL)
		}
	}
	l.MovedTo, l.MovedFrom = e.term.MovedTo, e.term.Moved
	if w := e.term.Request; w != nil {
		l.Request = backend.Request{Election: e.name, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: w.Nonce}
	}
	if e.mine && self != "" {
		l.ObserveFor = 0 // a leftover of ours
	} else {
		e.mine = false
	}
	if !written.IsZero() {
		l.Age = min(max(now.Sub(written), 0), 24*time.Hour)
	}
	*l = backend.CleanLease(*l)
	m.see(e)
}

// twice is two TTLs, or of one that none of ours has, two of the greatest.
func twice(ttl int64) time.Duration {
	if d := duration(ttl); d >= time.Second {
		return 2 * d
	}
	return 2 * longest
}

// ends are how a leadership ends.
var ends = []backend.End{backend.Released, backend.Failed, backend.Deposed, backend.Forgotten}

// leaseFor is judge for what was written rather than read. The entry is shared by
// then, and left as it is.
func (e entry) leaseFor(self string, m *memory, now time.Time) backend.Lease {
	e.judge(self, true, m, now)
	return e.lease
}

// virgin reports whether there is nothing of the election, nor was there anything. A grant
// then has no key to rest on but the one of changes: all else may have come, with another
// grant, and have been deleted by hand since it was read.
func (e *entry) virgin() bool { return e.lockPair == nil && e.termPair == nil }

// hangs reports whether the lock hangs on the session that its value names, so that a
// renewal of that session can be one of this lease.
func (e *entry) hangs() bool {
	return e.lock.Session != "" && e.lockPair != nil && e.lockPair.Session == e.lock.Session
}

// ours reports whether the lease is held with that session by that nonce in that
// term, by all that there is about it.
func (e *entry) ours(session, nonce string, term uint64) bool {
	return e.lockPair != nil && e.lockPair.Session == session && e.lock.Session == session && session != "" &&
		e.lock.Holder.Nonce == nonce && e.lock.Term == term &&
		e.term.Term == term && e.term.Nonce == nonce && e.term.End == ""
}

// deposed reports whether an operator has ended the present leadership.
func (e *entry) deposed() bool {
	w := e.term.Request
	return w != nil && w.Kind == backend.Depose && w.Term == e.term.Term
}

// ref is what else a challenger must see unchanged: the lock key itself.
func (e *entry) ref() string {
	if e.lockPair == nil {
		return "-"
	}
	return ref(e.lockPair.ModifyIndex, e.lockPair.Session)
}

func ref(index uint64, session string) string { return fmt.Sprintf("%d %.64s", index, session) }

// mix makes one heartbeat of two: never 0, which stands for "not seen", nor 1, which
// stands for "nothing there".
func mix(a, b heartbeat) uint64 {
	if n := uint64(a + b); n > 1 {
		return n
	}
	return 2
}

// memory is what this process remembers of elections: enough to find out that
// the store has gone back, because a snapshot was restored or keys were deleted.
type memory struct {
	mu    sync.Mutex
	seen  map[string]sight
	where map[string]string // election to session, to guess the heartbeat key by
}

type sight struct {
	term uint64
	ttl  time.Duration // the greatest
}

// see notes what was read. Of a store that has gone back, nothing is free before
// it was watched for twice the greatest TTL that was seen.
func (m *memory) see(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen, m.where = make(map[string]sight), make(map[string]string)
	}
	l := &e.lease
	s := m.seen[e.name]
	if s.ttl = max(s.ttl, l.TTL, duration(e.term.TTL)); l.Term < s.term && l.Term < greatest {
		e.held, e.mine, e.lost, e.last = true, false, true, s.term
		l.ObserveFor = max(l.ObserveFor, 2*s.ttl)
		l.Ref += " back"
	} else if l.Term < greatest {
		s.term = l.Term
	}
	if s.term > 0 {
		m.seen[e.name] = s
	}
	if e.lock.Session != "" {
		m.where[e.name] = e.lock.Session
	}
}

// note remembers a grant of our own.
func (m *memory) note(name string, term uint64, ttl time.Duration, session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[name] // it was read before
	m.seen[name] = sight{max(s.term, term), max(s.ttl, ttl)}
	m.where[name] = session
}

// greatest is the greatest term that can be granted. What is above it was planted.
const greatest = 1 << 62

// session guesses on whose heartbeat key an election hangs.
func (m *memory) session(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.where[name]
}
