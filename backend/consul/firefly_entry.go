package consul

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// A leadershipRecord is the value of our key beside the lock of a FireflySoft election.
type leadershipRecord struct {
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

// A sharedLock is all that was read of one election, and what it means.
type sharedLock struct {
	name               string
	lockPair, ownPair  *api.KVPair // nil: no such key
	own                leadershipRecord
	session, ownLocker string // whose locks they are; "": nobody's
	leaderships        bool   // a leadership of ours has not ended in order
	held               bool   // and its session has the locks
	sealed             bool   // the lock is kept by the seal
	mine               bool   // the locks hang on a session of this process
	last               uint64 // the greatest term known
	lost               bool   // the record is gone, or older than what this process has seen
	lease              backend.Lease
}

// both is how many elections one transaction reads.
const both = maxOps / 2

// read reads elections, consistently: each two keys of one transaction.
func (f *Firefly) read(ctx context.Context, names []string) ([]*sharedLock, error) {
	locks := make([]*sharedLock, 0, len(names))
	for part := range slices.Chunk(names, both) {
		var ops api.KVTxnOps
		for _, name := range part {
			ops = append(ops, get(f.lock(name)), get(f.record(name)))
		}
		pairs, err := f.base.gets(ctx, ops)
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			s := &sharedLock{name: name, lockPair: pairs[f.lock(name)], ownPair: pairs[f.record(name)]}
			s.parse()
			f.judge(s)
			locks = append(locks, s)
		}
	}
	return locks, nil
}

// parse reads what anybody may have written. What is not valid is as if it were not
// there, but for the keys that are.
func (s *sharedLock) parse() {
	if !decode(s.ownPair, &s.own) {
		s.own = leadershipRecord{}
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

// judge makes the lease of what was read.
//
// A leadership is one of ours if its session has locked both keys, or ours alone where
// the seal keeps the other; a lock without that is somebody else's, whatever its
// value says. Consul ends both. What is not locked is free only if a leadership of ours has ended
// there in order and nobody has had the lock since, or if nobody ever had it.
func (f *Firefly) judge(s *sharedLock) {
	self, session := f.base.guard.Nonce(), f.base.session.get()
	r, l := &s.own, &s.lease
	s.leaderships = r.Term > 0 && r.End == ""
	s.sealed = r.Seal != "" && s.session == r.Seal
	s.held = s.leaderships && r.Session != "" && s.ownLocker == r.Session && (s.session == r.Session || s.sealed)
	s.last = r.Term
	*l = backend.Lease{Election: s.name, Term: r.Term, Heartbeat: mix(r.Heartbeat, 1), Ref: s.ref()}
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
		f.free(s, leader)
	}
	if s.mine {
		l.ObserveFor = 0
	}
	*l = backend.CleanLease(*l)
	f.remember(s)
}

// free completes the lease of an election whose locks nobody has.
func (f *Firefly) free(s *sharedLock, leader string) {
	r, l := &s.own, &s.lease
	l.End, l.LastID, l.LastNonce = backend.Failed, leader, ""
	if leader == "" || leader == r.ID {
		l.LastID, l.LastNonce = r.ID, r.Nonce
	}
	switch untouched := s.lockPair != nil && s.lockPair.CreateIndex == r.Created && s.lockPair.LockIndex == r.Locks; {
	case s.sealed && s.leaderships:
		l.ObserveFor = f.fleet.FailoverDelay
	case r.Term > 0 && !s.leaderships && (s.sealed || untouched): // the last leadership ended in order
		l.End, l.LastID, l.LastNonce = r.End, r.ID, r.Nonce
		if r.End == backend.Failed {
			l.ObserveFor = f.wait(r.ID)
		}
	case r.Term == 0 && s.lockPair == nil && s.ownPair == nil: // never led
		l.End = ""
	case r.Term == 0 && leader == "": // scribbled over
		l.End, l.ObserveFor = "", f.fleet.FailoverDelay
	default:
		l.ObserveFor = f.wait(l.LastID)
	}
}

// wait is how long an election must have been seen free, which that candidate has
// lost: as FireflySoft's members wait, for the lock-delay and for the old leader.
func (f *Firefly) wait(last string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last == f.id && last != "" {
		return f.fleet.FailoverDelay
	}
	return f.fleet.returning()
}

// remember notes what was read, and finds out that the record has gone back. If so
// nothing is free before it was watched.
func (f *Firefly) remember(s *sharedLock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch seen := f.seen[s.name]; {
	case s.own.Term > greatest: // planted
	case s.own.Term < seen:
		s.lost, s.last = true, seen
		s.lease.Ref += " back"
		if s.lease.ObserveFor >= 0 && !s.mine {
			s.lease.ObserveFor = max(s.lease.ObserveFor, f.fleet.FailoverDelay)
		}
	case s.own.Term > 0:
		f.seen[s.name] = s.own.Term
	default:
		s.lost = s.lockPair != nil // perhaps there was a record
	}
}

// ref is what else a challenger must see unchanged: the locks.
func (s *sharedLock) ref() string {
	lock := "-"
	if s.lockPair != nil {
		lock = ref(s.lockPair.ModifyIndex, s.session)
	}
	return fmt.Sprintf("%s %.64s", lock, s.ownLocker)
}

// ours reports whether the lease is held with that session by that nonce in that term.
func (s *sharedLock) ours(session, nonce string, term uint64) bool {
	return s.held && s.own.Session == session && s.own.Nonce == nonce && s.own.Term == term
}

// deposed reports whether an operator has ended the present leadership.
func (s *sharedLock) deposed() bool {
	w := s.own.Request
	return w != nil && w.Kind == backend.Depose && w.Term == s.own.Term
}

// know notes the id of the candidate that is served.
func (f *Firefly) know(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// noted notes that an election may be held, in a leadership that is known or not.
func (f *Firefly) noted(name string, t leadership) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.may[name] = t
	if t.term > 0 {
		f.seen[name] = max(f.seen[name], t.term)
	}
}

// gone notes that an election is certainly not held.
func (f *Firefly) gone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.may, name)
}

// might reports whether an election may be held.
func (f *Firefly) might(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.may[name]
	return is
}
