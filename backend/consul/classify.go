package consul

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// classify makes the lease of what was read.
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
func (e *entry) classify(self string, may bool, m *memory, now time.Time) {
	okLock, okTerm := e.lock.Holder.Nonce != "", e.term.Term > 0
	agree := okLock && okTerm && e.lock.Term == e.term.Term && e.lock.Holder.Nonce == e.term.Nonce && e.lock.TTL == e.term.TTL && e.lock.TTL > 0 && e.term.End == ""
	e.held, e.mine, e.dataLost = false, false, false
	l := &e.lease
	*l = backend.Lease{Election: e.name, Term: max(e.lock.Term, e.term.Term), Heartbeat: 1, Ref: e.ref()}
	e.lastTerm = l.Term
	written := e.term.To
	switch {
	case !okLock && e.lockPair != nil && e.lockPair.Session != "": // locked by somebody else, or scribbled over
		e.held, e.dataLost = true, true
		l.ObserveFor = 2 * maxTTL
	case okLock: // also if the record is gone or tells another story
		e.held, e.mine = true, e.lock.Holder.Nonce == self && agree && may
		h := e.lock.Holder
		l.Holder = backend.Candidate{ID: h.ID, Nonce: h.Nonce, Address: h.Address, Metadata: h.Metadata}
		l.TTL, l.Renew = duration(e.lock.TTL), duration(e.lock.Renew)
		if l.ObserveFor = l.TTL; !agree {
			l.ObserveFor = maxTTL // scribbled over
		}
		if !e.lockedByHolder() { // it has ended, or somebody has been here
			l.ObserveFor *= 2
		}
		l.Heartbeat = combine(e.lock.Heartbeat, 0)
		if e.lockedByHolder() {
			l.Heartbeat = combine(e.lock.Heartbeat, e.renewals.heartbeatOf(e.name))
		}
		if p := e.term.Last; p != nil {
			l.End, l.LastID, l.LastNonce = p.End, p.ID, p.Nonce
		}
		if written = e.lock.At; e.renewals != nil && e.renewals.At.After(written) {
			written = e.renewals.At
		}
	case okTerm && e.term.End == "": // its lock key is gone
		e.held, e.mine, e.dataLost = true, e.term.Nonce == self && may, true
		l.ObserveFor = doubled(e.term.TTL)
		l.Heartbeat = combine(e.term.Heartbeat, 1)
		l.End, l.LastID, l.LastNonce = backend.Failed, e.term.ID, e.term.Nonce
		written = e.term.From
	case okTerm && e.lockPair != nil && !e.tampered && e.lock.Term == e.term.Term && slices.Contains(validEnds, e.term.End):
		l.Heartbeat = combine(e.term.Heartbeat, 0)
		l.End, l.LastID, l.LastNonce = e.term.End, e.term.ID, e.term.Nonce
	case e.termPair != nil, e.tampered, e.lock.Term > 0: // scribbled over, or what they tell does not fit
		e.held, e.dataLost = true, true
		l.ObserveFor = 2 * maxTTL
		if okTerm && e.lockPair == nil { // deleted by somebody; of a leadership that has ended, perhaps
			l.ObserveFor = doubled(e.term.TTL)
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
	m.record(e)
}

// twice is two TTLs, or of one that none of ours has, two of the greatest.
func doubled(ttl int64) time.Duration {
	if d := duration(ttl); d >= time.Second {
		return 2 * d
	}
	return 2 * maxTTL
}

// ends are how a leadership ends.
var validEnds = []backend.End{backend.Released, backend.Failed, backend.Deposed, backend.Forgotten}

// leaseFor is classify for what was written rather than read. The entry is shared by
// then, and left as it is.
func (e entry) leaseFor(self string, m *memory, now time.Time) backend.Lease {
	e.classify(self, true, m, now)
	return e.lease
}
