package consul

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// A fireflyRecord is the value of our key beside the lock of a FireflySoft election.
type fireflyRecord struct {
	term
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
	Renew    int64  `json:"renew_us,omitempty"`
	Session  string `json:"session,omitempty"` // of the holder
	Seal     string `json:"seal,omitempty"`    // the session that keeps the lock of an election that has moved

	// The lock as the last leadership of ours has left it in order: CreateIndex and
	// LockIndex. If it is not like that, somebody has had it since.
	Created uint64 `json:"created,omitempty"`
	Locks   uint64 `json:"locks,omitempty"`
}

// A fireflyEntry is all that was read of one election, and what it means.
type fireflyEntry struct {
	name               string
	lockPair, ownPair  *api.KVPair // nil: no such key
	own                fireflyRecord
	session, ownLocker string // whose locks they are; "": nobody's
	unfinished         bool   // a leadership of ours has not ended in order
	held               bool   // and its session has the locks
	sealed             bool   // the lock is kept by the seal
	mine               bool   // the locks hang on a session of this process
	lastTerm           uint64 // the greatest term known
	dataLost           bool   // the record is gone, or older than what this process has seen
	lease              backend.Lease
}

// both is how many elections one transaction reads.
const maxReadFirefly = maxOps / 2

// read reads elections, consistently: each two keys of one transaction.
func (f *Firefly) read(ctx context.Context, names []string) ([]*fireflyEntry, error) {
	locks := make([]*fireflyEntry, 0, len(names))
	for part := range slices.Chunk(names, maxReadFirefly) {
		var ops api.KVTxnOps
		for _, name := range part {
			ops = append(ops, getOp(f.lock(name)), getOp(f.record(name)))
		}
		pairs, err := f.base.readKeys(ctx, ops)
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			s := &fireflyEntry{name: name, lockPair: pairs[f.lock(name)], ownPair: pairs[f.record(name)]}
			s.parse()
			f.classify(s)
			locks = append(locks, s)
		}
	}
	return locks, nil
}

// parse reads what anybody may have written. What is not valid is as if it were not
// there, but for the keys that are.
func (s *fireflyEntry) parse() {
	if !decode(s.ownPair, &s.own) {
		s.own = fireflyRecord{}
	}
	s.own.clean()
	if len(s.own.Session) > 64 {
		s.own.Session = ""
	}
	if len(s.own.Seal) > 64 {
		s.own.Seal = ""
	}
	if s.lockPair != nil {
		s.session = s.lockPair.Session
	}
	if s.ownPair != nil {
		s.ownLocker = s.ownPair.Session
	}
}

// classify makes the lease of what was read.
//
// A leadership is one of ours if its session has locked both keys, or ours alone where
// the seal keeps the other; a lock without that is somebody else's, whatever its
// value says. Consul ends both. What is not locked is free only if a leadership of ours has ended
// there in order and nobody has had the lock since, or if nobody ever had it.
func (f *Firefly) classify(s *fireflyEntry) {
	self, session := f.base.owner.Nonce(), f.base.session.get()
	r, l := &s.own, &s.lease
	s.unfinished = r.Term > 0 && r.End == ""
	s.sealed = r.Seal != "" && s.session == r.Seal
	s.held = s.unfinished && r.Session != "" && s.ownLocker == r.Session && (s.session == r.Session || s.sealed)
	s.lastTerm = r.Term
	*l = backend.Lease{Election: s.name, Term: r.Term, Heartbeat: combine(r.Heartbeat, 1), Ref: s.ref()}
	leader := "" // by the lock's value
	if s.lockPair != nil && len(s.lockPair.Value) <= maxValue {
		leader = backend.Clean(string(s.lockPair.Value), backend.MaxID, false)
	}
	l.MovedTo, l.MovedFrom = r.MovedTo, r.Moved
	if w := r.Request; w != nil {
		l.Request = backend.Request{Election: s.name, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: w.Nonce}
	}
	switch {
	case s.held:
		s.mine = r.Nonce == self && self != ""
		l.Holder = backend.Candidate{ID: r.ID, Nonce: r.Nonce, Address: r.Address, Metadata: r.Metadata}
		l.TTL, l.Renew, l.ObserveFor = duration(r.TTL), duration(r.Renew), backend.ExpiresInStore
		if p := r.Last; p != nil {
			l.End, l.LastID, l.LastNonce = p.End, p.ID, p.Nonce
		}
		l.Age = max(time.Since(r.From), 0)
	case s.session != "" && !s.sealed: // a member of FireflySoft, or nobody knows who
		s.mine = s.session == session
		l.Holder, l.ObserveFor, l.Request = backend.Candidate{ID: leader}, backend.ExpiresInStore, backend.Request{}
		if leader == "" {
			l.Holder.ID = "session " + s.session
		}
		if s.mine { // left over: somebody has been at our key
			l.Holder.Nonce = self
		}
		l.End, l.LastID, l.LastNonce = r.End, r.ID, r.Nonce
	default:
		f.classifyFree(s, leader)
	}
	if s.mine {
		l.ObserveFor = 0
	}
	*l = backend.CleanLease(*l)
	f.recordRead(s)
}

// free completes the lease of an election whose locks nobody has.
func (f *Firefly) classifyFree(s *fireflyEntry, leader string) {
	r, l := &s.own, &s.lease
	l.End, l.LastID, l.LastNonce = backend.Failed, leader, ""
	if leader == "" || leader == r.ID {
		l.LastID, l.LastNonce = r.ID, r.Nonce
	}
	switch untouched := s.lockPair != nil && s.lockPair.CreateIndex == r.Created && s.lockPair.LockIndex == r.Locks; {
	case s.sealed && s.unfinished:
		l.ObserveFor = f.fleet.FailoverDelay
	case r.Term > 0 && !s.unfinished && (s.sealed || untouched): // the last leadership ended in order
		l.End, l.LastID, l.LastNonce = r.End, r.ID, r.Nonce
		if r.End == backend.Failed {
			l.ObserveFor = f.waitAfter(r.ID)
		}
	case r.Term == 0 && s.lockPair == nil && s.ownPair == nil: // never led
		l.End = ""
	case r.Term == 0 && leader == "": // scribbled over
		l.End, l.ObserveFor = "", f.fleet.FailoverDelay
	default:
		l.ObserveFor = f.waitAfter(l.LastID)
	}
}

// wait is how long an election must have been seen free, which that candidate has
// lost: as FireflySoft's members wait, for the lock-delay and for the old leader.
func (f *Firefly) waitAfter(last string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last == f.id && last != "" {
		return f.fleet.FailoverDelay
	}
	return f.fleet.confirmWait()
}

// remember notes what was read, and finds out that the record has gone back. If so
// nothing is free before it was watched.
func (f *Firefly) recordRead(s *fireflyEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch seen := f.seen[s.name]; {
	case s.own.Term > maxTerm: // planted
	case s.own.Term < seen:
		s.dataLost, s.lastTerm = true, seen
		s.lease.Ref += " back"
		if s.lease.ObserveFor >= 0 && !s.mine {
			s.lease.ObserveFor = max(s.lease.ObserveFor, f.fleet.FailoverDelay)
		}
	case s.own.Term > 0:
		f.seen[s.name] = s.own.Term
	default:
		s.dataLost = s.lockPair != nil // perhaps there was a record
	}
}

// ref is what else a challenger must see unchanged: the locks.
func (s *fireflyEntry) ref() string {
	lock := "-"
	if s.lockPair != nil {
		lock = ref(s.lockPair.ModifyIndex, s.session)
	}
	return fmt.Sprintf("%s %.64s", lock, s.ownLocker)
}

// ours reports whether the lease is held with that session by that nonce in that term.
func (s *fireflyEntry) heldBy(session, nonce string, term uint64) bool {
	return s.held && s.own.Session == session && s.own.Nonce == nonce && s.own.Term == term
}

// deposed reports whether an operator has ended the present leadership.
func (s *fireflyEntry) deposed() bool {
	w := s.own.Request
	return w != nil && w.Kind == backend.Depose && w.Term == s.own.Term
}

// know notes the id of the candidate that is served.
func (f *Firefly) setCandidate(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// noted notes that an election may be held, in a leadership that is known or not.
func (f *Firefly) markHeld(name string, t heldLock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[name] = t
	if t.term > 0 {
		f.seen[name] = max(f.seen[name], t.term)
	}
}

// gone notes that an election is certainly not held.
func (f *Firefly) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, name)
}

// might reports whether an election may be held.
func (f *Firefly) mayHold(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.held[name]
	return is
}
