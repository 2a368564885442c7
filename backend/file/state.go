//go:build linux || darwin

package file

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/go-election/go-election/backend"
)

// A state is all that the files of one election say.
type state struct {
	name    string
	rec     record
	known   bool // there is a record; it is damaged if its term is 0
	lock    string
	pulse   pulse
	locked  bool
	lost    bool // files are missing that once were there, and somebody may still trust them
	request backend.Request
}

// read reads an election's state. In this order: the record, and then whether it
// is locked. If not, and the record is the same afterwards, the leadership in it is
// over for certain: its lock was taken before the record was written.
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
	if s.rec, s.known, err = b.readRecord(name); err != nil {
		return s, err
	}
	f, st, err := open(b.path(name, lockSuffix), os.O_RDONLY)
	if err == nil {
		defer f.Close()
		s.lock = identity(&st)
		s.pulse = readPulse(f, s.lock)
		s.locked, err = locked(f)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	return s, b.rest(&s)
}

// readHeld is read for who has the lock.
func (b *Backend) readHeld(name string, h *hold) (s state, err error) {
	s.name, s.lock, s.pulse = name, h.id, readPulse(h.f, h.id)
	if s.rec, s.known, err = b.readRecord(name); err != nil {
		return s, err
	}
	return s, b.rest(&s)
}

// rest reads the request, and finds out whether the lock file can be believed.
func (b *Backend) rest(s *state) (err error) {
	if s.request, err = b.readRequest(s.name); err != nil {
		return err
	}
	term := max(s.rec.Term, s.pulse.Term)
	led := b.remember(s.name, term)
	if s.rec.Term > 0 && same(s.rec.Lock, s.lock) && term >= led {
		return nil // this is the file that who is in the record had locked, or has
	}
	// Else nothing that is written here can be believed: what an earlier leadership left, a
	// vacant record as well, may have been put back under a later one.
	for range 2 {
		exists, listed, err := b.listed(s.name)
		if err != nil {
			return err
		}
		if exists && !listed && !s.known && led == 0 && b.complete() {
			return nil // never led
		}
		free, err := b.unled()
		if err != nil || free {
			return err // nobody is there to trust anything
		}
		if exists {
			break
		}
	}
	s.lost = true
	return nil
}

// lease is the state as a challenger or an observer must see it.
func (b *Backend) lease(s state) backend.Lease {
	r := s.rec
	l := backend.Lease{Election: s.name, Term: r.Term, Heartbeat: r.Heartbeat, End: r.End, LastID: r.LastID, LastNonce: r.Last, Request: s.request, MovedTo: r.MovedTo, MovedFrom: r.From}
	written := r.Written
	if r.held() {
		l.Holder = backend.Candidate{ID: r.Holder.ID, Nonce: r.Holder.Nonce, Address: r.Holder.Address, Metadata: r.Holder.Metadata}
		l.TTL, l.Renew = r.TTL, r.Renew
	}
	switch p := s.pulse; {
	case r.Term == 0 && !s.locked: // no record, or none that can be read
		l.Term, l.Heartbeat, written = p.Term, p.Heartbeat, p.Written
	case r.held() && p.Term == r.Term && p.Nonce == r.Holder.Nonce:
		l.Heartbeat, written = p.Heartbeat, p.Written
	}
	if !written.IsZero() {
		l.Age = max(time.Since(written), 0)
	}
	if l.Request.Term != l.Term {
		l.Request = backend.Request{}
	}
	switch {
	case r.held() && b.ours(s.name, s.lock, r.Term):
	case s.locked:
		l.ObserveFor = backend.ExpiresInStore
		if r.held() && s.pulse.Term > r.Term { // by another one, who is about to be granted it
			bury(&l)
		}
	case s.lost:
		l.ObserveFor = b.maxTTL // not what the record says: it may be that of an earlier leadership
	case r.held(): // the kernel has unlocked it: whoever held it is dead
		bury(&l)
	}
	return backend.CleanLease(l)
}

// lapsed is how long ago the lease of the recorded holder ran out, 0 if it has not.
func (s *state) lapsed(now time.Time) time.Duration {
	renewed := s.rec.Written
	if s.rec.held() && s.pulse.Term == s.rec.Term && s.pulse.Nonce == s.rec.Holder.Nonce {
		renewed = s.pulse.Written
	}
	return max(0, now.Sub(renewed)-s.rec.TTL)
}

// bury makes a lease vacant whose holder has died.
func bury(l *backend.Lease) {
	l.End, l.LastID, l.LastNonce = backend.Failed, l.Holder.ID, l.Holder.Nonce
	l.Holder, l.TTL, l.Renew = backend.Candidate{}, 0, 0
}

// look is read and lease.
func (b *Backend) look(name string) (backend.Lease, error) {
	s, err := b.read(name)
	if err != nil {
		return backend.Lease{}, err
	}
	return b.lease(s), nil
}

func (b *Backend) readRequest(name string) (w backend.Request, err error) {
	text, err := readAll(b.path(name, requestSuffix))
	if err != nil || text == nil {
		return w, err
	}
	var c struct {
		Election string              `json:"election"`
		Term     uint64              `json:"term"`
		Kind     backend.RequestKind `json:"kind"`
		ID       string              `json:"id"`
		Nonce    string              `json:"nonce"`
	}
	if json.Unmarshal(text, &c) != nil || c.Election != name {
		return w, nil // as good as none
	}
	return backend.Request(c), nil
}
