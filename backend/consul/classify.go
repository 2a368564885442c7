package consul

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// classify derives the lease from what was read: see docs/design/consul.md, "Manual edits".
//
// A lease is vacant if record and lock agree that the last leadership ended in order, or if
// the election has no keys. Any other lease is watched:
//
//   - for one TTL, if its holder's session has locked it, since a renewal would show;
//   - for two TTLs, if the lock was deleted, unlocked or overwritten, or the record is older
//     than what this process has read: a holder of many leases may notice one TTL later;
//   - by the greatest TTL, if lock and record contradict each other: nobody knows how long
//     the holder trusts the lease.
//
// mayHold is whether this process has bid for the lease. Without a bid, a record with its
// nonce was written manually, and another process may lead.
func (e *entry) classify(self backend.Nonce, mayHold bool, m *memory, now time.Time) {
	okLock, okTerm := e.lock.Holder.Nonce != "", e.term.Term > 0
	agree := okLock && okTerm && e.lock.Term == e.term.Term && e.lock.Holder.Nonce == e.term.Nonce && e.lock.TTL == e.term.TTL && e.lock.TTL > 0 && e.term.End == ""
	e.held, e.mine, e.dataLost = false, false, false
	l := &e.lease
	*l = backend.Lease{Election: e.name, Term: max(e.lock.Term, e.term.Term)}
	heartbeat := uint64(1)
	e.lastTerm = l.Term
	written := e.term.To
	switch {
	case !okLock && e.lockPair != nil && e.lockPair.Session != "": // locked by another program, or overwritten
		e.held, e.dataLost = true, true
		l.ObserveFor = 2 * maxTTL
	case okLock: // also if the record is gone or contradicts the lock
		e.held, e.mine = true, e.lock.Holder.Nonce == string(self) && agree && mayHold
		h := e.lock.Holder
		l.Holder = backend.Candidate{ID: h.ID, Nonce: backend.Nonce(h.Nonce), Address: h.Address, Metadata: h.Metadata}
		l.TTL, l.Renew = duration(e.lock.TTL), duration(e.lock.Renew)
		if l.ObserveFor = l.TTL; !agree {
			l.ObserveFor = maxTTL // overwritten
		}
		if !e.lockedByHolder() { // the session has ended, or the key was edited
			l.ObserveFor *= 2
		}
		heartbeat = combine(e.lock.Heartbeat, 0)
		if e.lockedByHolder() {
			heartbeat = combine(e.lock.Heartbeat, e.renewals.Of(e.name))
		}
		if p := e.term.Last; p != nil {
			l.End, l.LastID = p.End, p.ID
		}
		if written = e.lock.At; e.renewals != nil && e.renewals.At.After(written) {
			written = e.renewals.At
		}
	case okTerm && e.term.End == "": // the lock key is gone
		e.held, e.mine, e.dataLost = true, e.term.Nonce == string(self) && mayHold, true
		l.ObserveFor = doubled(e.term.TTL)
		heartbeat = combine(e.term.Heartbeat, 1)
		l.End, l.LastID = backend.Failed, e.term.ID
		written = e.term.From
	case okTerm && e.lockPair != nil && !e.tampered && e.lock.Term == e.term.Term && slices.Contains(validEnds, e.term.End):
		heartbeat = combine(e.term.Heartbeat, 0)
		l.End, l.LastID = e.term.End, e.term.ID
	case e.termPair != nil, e.tampered, e.lock.Term > 0: // overwritten, or lock and record contradict each other
		e.held, e.dataLost = true, true
		l.ObserveFor = 2 * maxTTL
		if okTerm && e.lockPair == nil { // the lock was deleted, perhaps after the leadership had ended
			l.ObserveFor = doubled(e.term.TTL)
		}
	}
	l.MovedTo, l.MovedFrom = e.term.MovedTo, e.term.Moved
	if req := e.term.Request; req != nil {
		l.Request = backend.Request{Election: e.name, Term: req.Term, Kind: req.Kind, ID: req.ID, Nonce: backend.Nonce(req.Nonce)}
	}
	if e.mine && self != "" {
		l.ObserveFor = 0 // this process's own leftover
	} else {
		e.mine = false
	}
	if !written.IsZero() {
		l.Age = min(max(now.Sub(written), 0), 24*time.Hour)
	}
	l.Version = version(heartbeat, e.lockPair)
	*l = clean.Lease(*l)
	m.record(e)
}

// doubled returns two TTLs, or two of the greatest if no member can have written ttl.
func doubled(ttl int64) time.Duration {
	if d := duration(ttl); d >= time.Second {
		return 2 * d
	}
	return 2 * maxTTL
}

// validEnds are the ways in which a leadership ends.
var validEnds = []backend.End{backend.Released, backend.Failed, backend.Deposed, backend.Forgotten}

// leaseFor classifies an entry that this process has written. It works on a copy, since the
// entry is shared.
func (e entry) leaseFor(self backend.Nonce, m *memory, now time.Time) backend.Lease {
	e.classify(self, true, m, now)
	return e.lease
}
