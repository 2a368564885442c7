package firefly

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// An entry is everything that was read of one election, and its lease.
type entry struct {
	name               string
	lockPair, ownPair  *api.KVPair // nil: the key does not exist
	own                record
	session, ownLocker string // the sessions that hold the locks; empty: none
	unfinished         bool   // a leadership of this module has not ended in order
	held               bool   // and its session holds the locks
	sealed             bool   // the seal holds the lock
	mine               bool   // a session of this process holds the locks
	lastTerm           uint64 // the greatest term known
	dataLost           bool   // the record is gone, or older than what this process has read
	lease              backend.Lease
}

// maxRead is how many elections one transaction reads.
const maxRead = maxOps / 2

// read reads elections consistently: both keys of an election in one transaction.
func (f *Backend) read(ctx context.Context, names []string) ([]*entry, error) {
	locks := make([]*entry, 0, len(names))
	for part := range slices.Chunk(names, maxRead) {
		var keys []string
		for _, name := range part {
			keys = append(keys, f.lock(name), f.record(name))
		}
		pairs, err := f.agent.Get(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			s := &entry{name: name, lockPair: pairs[f.lock(name)], ownPair: pairs[f.record(name)]}
			s.parse()
			f.classify(s)
			locks = append(locks, s)
		}
	}
	return locks, nil
}

// parse decodes the values, which may be arbitrary. A value that is invalid counts as missing;
// that its key exists still counts.
func (s *entry) parse() {
	if !decode(s.ownPair, &s.own) {
		s.own = record{}
	}
	s.own.clean()
	if s.lockPair != nil {
		s.session = s.lockPair.Session
	}
	if s.ownPair != nil {
		s.ownLocker = s.ownPair.Session
	}
}

// classify derives the lease from what was read.
//
// A leadership is one of this module if its session holds both locks, or only ours if the seal
// holds the other. Any other lock belongs to another program, whatever its value says. Consul
// ends both. Without a lock, the lease is vacant if a leadership of this module has ended in
// order and nobody has held the lock since, or if the election was never led.
func (f *Backend) classify(s *entry) {
	self, session := f.owner.Nonce(), f.currentSession()
	r, l := &s.own, &s.lease
	s.unfinished = r.Term > 0 && r.End == ""
	s.sealed = r.Seal != "" && s.session == r.Seal
	s.held = s.unfinished && r.Session != "" && s.ownLocker == r.Session && (s.session == r.Session || s.sealed)
	s.lastTerm = r.Term
	*l = backend.Lease{Election: s.name, Term: r.Term, Version: s.version()}
	leader := "" // according to the lock's value
	if s.lockPair != nil && len(s.lockPair.Value) <= maxValue {
		leader = clean.Text(string(s.lockPair.Value), backend.MaxID, false)
	}
	l.MovedTo, l.MovedFrom = r.MovedTo, r.Moved
	if req := r.Request; req != nil {
		l.Request = backend.Request{Election: s.name, Term: req.Term, Kind: req.Kind, ID: req.ID, Nonce: backend.Nonce(req.Nonce)}
	}
	switch {
	case s.held:
		s.mine = r.Nonce == string(self) && self != ""
		l.Holder = backend.Candidate{ID: r.ID, Nonce: backend.Nonce(r.Nonce), Address: r.Address, Metadata: r.Metadata}
		l.TTL, l.Renew, l.ObserveFor = duration(r.TTL), duration(r.Renew), backend.ExpiresInStore
		if p := r.Last; p != nil {
			l.End, l.LastID = p.End, p.ID
		}
		l.Age = max(time.Since(r.From), 0)
	case s.session != "" && !s.sealed: // a member of FireflySoft, or unknown
		s.mine = s.session == session
		l.Holder, l.ObserveFor, l.Request = backend.Candidate{ID: leader, Nonce: backend.Nonce("session " + s.session)}, backend.ExpiresInStore, backend.Request{}
		if leader == "" {
			l.Holder.ID = "session " + s.session
		}
		if s.mine { // left over: our key was edited
			l.Holder.Nonce = self
		}
		l.End, l.LastID = r.End, r.ID
	default:
		f.classifyFree(s, leader)
	}
	if s.mine {
		l.ObserveFor = 0
	}
	*l = clean.Lease(*l)
	f.recordRead(s)
}

// version makes the Version of a lease of our heartbeat, and of the sessions that hold the locks.
func (s *entry) version() string {
	v := strconv.FormatUint(max(uint64(s.own.Heartbeat), 1), 36)
	if s.lockPair != nil {
		v += " " + strconv.FormatUint(s.lockPair.ModifyIndex, 10) + " " + s.session[:min(len(s.session), 64)]
	}
	return v + " " + s.ownLocker[:min(len(s.ownLocker), 64)]
}

// classifyFree completes the lease of an election that nobody has locked.
func (f *Backend) classifyFree(s *entry, leader string) {
	r, l := &s.own, &s.lease
	l.End, l.LastID = backend.Failed, leader
	if leader == "" || leader == r.ID {
		l.LastID = r.ID
	}
	switch untouched := s.lockPair != nil && s.lockPair.CreateIndex == r.Created && s.lockPair.LockIndex == r.Locks; {
	case s.sealed && s.unfinished:
		l.ObserveFor = f.fleet.FailoverDelay
	case r.Term > 0 && !s.unfinished && (s.sealed || untouched): // the last leadership ended in order
		l.End, l.LastID = r.End, r.ID
		if r.End == backend.Failed {
			l.ObserveFor = f.waitAfter(r.ID)
		}
	case r.Term == 0 && s.lockPair == nil && s.ownPair == nil: // never led
		l.End = ""
	case r.Term == 0 && leader == "": // overwritten
		l.End, l.ObserveFor = "", f.fleet.FailoverDelay
	default:
		l.ObserveFor = f.waitAfter(l.LastID)
	}
}

// waitAfter is how long a challenger watches an unlocked election that last had that leader. It
// waits as FireflySoft's members do, for the lock-delay and for the old leader's return.
func (f *Backend) waitAfter(last string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last == f.id && last != "" {
		return f.fleet.FailoverDelay
	}
	return f.fleet.confirmWait()
}

// recordRead notes what was read. If the record has gone back, the lease is watched.
func (f *Backend) recordRead(s *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch seen := f.seen[s.name]; {
	case s.own.Term > backend.MaxTerm: // written manually
	case s.own.Term < seen:
		s.dataLost, s.lastTerm = true, seen
		s.lease.Version += " back"
		if s.lease.ObserveFor >= 0 && !s.mine {
			s.lease.ObserveFor = max(s.lease.ObserveFor, f.fleet.FailoverDelay)
		}
	case s.own.Term > 0:
		f.seen[s.name] = s.own.Term
	default:
		s.dataLost = s.lockPair != nil // perhaps a record was deleted
	}
}

// heldBy reports whether this session and nonce hold the lease in this term.
func (s *entry) heldBy(session string, nonce backend.Nonce, term uint64) bool {
	return s.held && s.own.Session == session && s.own.Nonce == string(nonce) && s.own.Term == term
}

// deposed reports whether an operator has ended the present leadership.
func (s *entry) deposed() bool {
	req := s.own.Request
	return req != nil && req.Kind == backend.Depose && req.Term == s.own.Term
}

// setCandidate notes the id of this process's candidate.
func (f *Backend) setCandidate(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// markHeld notes that this process may hold an election.
func (f *Backend) markHeld(name string, t heldLock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[name] = t
	if t.term > 0 {
		f.seen[name] = max(f.seen[name], t.term)
	}
}

// remove notes that an election is certainly not held.
func (f *Backend) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, name)
}

// mayHold reports whether this process may hold an election.
func (f *Backend) mayHold(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.held[name]
	return ok
}
