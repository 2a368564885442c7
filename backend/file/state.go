//go:build linux || darwin

package file

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A state is all that the files of one election say.
type state struct {
	name      string
	rec       record
	hasRecord bool     // there is a record; it is damaged if its term is 0
	lock      string   // identity of the lock file
	line      lockLine // the text of the lock file
	locked    bool     // another process holds the lock
	filesLost bool     // files are missing or not to be believed, and a leader may still trust them
	request   backend.Request
}

// readLease reads the lease of an election, as this process must treat it.
func (b *Backend) readLease(name string) (backend.Lease, error) {
	s, err := b.read(name)
	if err != nil {
		return backend.Lease{}, err
	}
	return b.lease(s), nil
}

// read reads an election's state: first the record, and then whether the file is locked.
// If it is not, and the record is still the same afterwards, the leadership in the record
// is over for certain, because its lock was taken before the record was written.
func (b *Backend) read(name string) (s state, err error) {
	for range 10 {
		if s, err = b.readOnce(name); err != nil || !s.rec.held() || s.locked {
			break
		}
		r, _, err := b.readRecord(name)
		if err != nil {
			return s, err
		}
		if r.Term == s.rec.Term && r.Heartbeat == s.rec.Heartbeat {
			break
		}
	}
	return s, err
}

func (b *Backend) readOnce(name string) (s state, err error) {
	s.name = name
	if s.rec, s.hasRecord, err = b.readRecord(name); err != nil {
		return s, err
	}
	f, st, err := open(b.path(name, lockSuffix), os.O_RDONLY)
	if err == nil {
		defer f.Close()
		s.lock = identity(&st)
		s.line = readLockLine(f, s.lock)
		s.locked, err = isLocked(f)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	return s, b.complete(&s)
}

// readUnderLock is read for a process that has the lock.
func (b *Backend) readUnderLock(name string, h *electionLock) (s state, err error) {
	s.name, s.lock, s.line = name, h.id, readLockLine(h.f, h.id)
	if s.rec, s.hasRecord, err = b.readRecord(name); err != nil {
		return s, err
	}
	return s, b.complete(&s)
}

// complete reads the request, and decides whether the files can be believed
// (docs/design/file.md, "Which record is believed").
func (b *Backend) complete(s *state) (err error) {
	if s.request, err = b.readRequest(s.name); err != nil {
		return err
	}
	term := max(s.rec.Term, s.line.Term)
	greatest := b.noteTerm(s.name, term)
	if s.rec.Term > 0 && sameFile(s.rec.Lock, s.lock) && term >= greatest && b.inSettledDir() {
		return nil // the recorded holder has locked this very file, or had it locked
	}
	// Everything else may be left from an earlier leadership, and put back under a later
	// one. That holds for a vacant record, too.
	for range 2 {
		exists, listed, err := b.isListed(s.name)
		if err != nil {
			return err
		}
		if exists && !listed && !s.hasRecord && greatest == 0 && b.registerComplete() {
			return nil // never led
		}
		free, err := b.nobodyLeads()
		if err != nil || free {
			return err // no process is left that could trust a lease
		}
		if exists {
			break
		}
	}
	s.filesLost = true
	return nil
}

// lease returns the state as a challenger or an observer must treat it.
func (b *Backend) lease(s state) backend.Lease {
	r := s.rec
	l, heartbeat := backend.Lease{Election: s.name, Term: r.Term, End: r.End, LastID: r.LastID, Request: s.request, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom}, r.Heartbeat
	written := r.Written
	if r.held() {
		l.Holder = backend.Candidate{ID: r.Holder.ID, Nonce: backend.Nonce(r.Holder.Nonce), Address: r.Holder.Address, Metadata: r.Holder.Metadata}
		l.TTL, l.Renew = r.TTL, r.Renew
	}
	switch line := s.line; {
	case r.Term == 0 && !s.locked: // no record, or a damaged one
		l.Term, heartbeat, written = line.Term, line.Heartbeat, line.Written
	case r.held() && line.Term == r.Term && line.Nonce == r.Holder.Nonce:
		heartbeat, written = line.Heartbeat, line.Written
	}
	l.Version = strconv.FormatUint(heartbeat, 36)
	if !written.IsZero() {
		l.Age = max(time.Since(written), 0)
	}
	if l.Request.Term != l.Term {
		l.Request = backend.Request{}
	}
	switch {
	case r.held() && b.isOurs(s.name, s.lock, r.Term):
	case s.locked:
		l.ObserveFor = backend.ExpiresInStore
		if r.held() && s.line.Term > r.Term { // by a later bidder, which is about to be granted the lease
			makeVacant(&l)
		}
	case s.filesLost:
		l.ObserveFor = b.maxTTL // not the TTL of the record, which may be that of an earlier leadership
	case r.held(): // the kernel has unlocked the file: the holder is dead
		makeVacant(&l)
	}
	return clean.Lease(l)
}

// lapsed is how long ago the lease of the recorded holder expired; 0 if it has not.
func (s *state) lapsed(now time.Time) time.Duration {
	renewed := s.rec.Written
	if s.rec.held() && s.line.Term == s.rec.Term && s.line.Nonce == s.rec.Holder.Nonce {
		renewed = s.line.Written
	}
	return max(0, now.Sub(renewed)-s.rec.TTL)
}

// makeVacant ends the leadership of a holder that has died.
func makeVacant(l *backend.Lease) {
	l.End, l.LastID = backend.Failed, l.Holder.ID
	l.Holder, l.TTL, l.Renew = backend.Candidate{}, 0, 0
}
