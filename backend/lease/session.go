package lease

import (
	"context"
	"errors"
	"time"

	"github.com/go-election/go-election/backend"
)

// A session is this process's session as it was last read or written.
type session struct {
	place
	item  Item
	value Session
	at    time.Time // when it was last written; zero: unknown

	withReading bool // it was written by readAnnouncing
}

// lockSession waits for the exclusive right to write the session.
func (b *Backend) lockSession(ctx context.Context) (unlock func(), err error) {
	select {
	case b.sessionMutex <- struct{}{}:
		return func() { <-b.sessionMutex }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *Backend) currentSession() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

func (b *Backend) setSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = s
}

func (b *Backend) sessionKey() Key { return Key{Sessions, string(b.owner.Nonce())} }

// ensureSession makes the session if there is none.
func (b *Backend) ensureSession(ctx context.Context, c backend.Candidate) (*session, error) {
	if s := b.currentSession(); s != nil {
		return s, nil
	}
	unlock, err := b.lockSession(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return b.makeSession(ctx, c)
}

// makeSession makes the session if there is none. The caller holds the session mutex.
func (b *Backend) makeSession(ctx context.Context, c backend.Candidate) (*session, error) {
	if s := b.currentSession(); s != nil {
		return s, nil
	}

	b.mu.Lock()
	at, next := b.cache.place, b.member
	b.mu.Unlock()
	next.ID, next.Nonce, next.Address, next.Metadata = c.ID, string(c.Nonce), c.Address, c.Metadata

	over := Item{Key: b.sessionKey()}
	for range rounds {
		if at.epoch != "" {
			w, err := b.writeSession(ctx, &session{place: at, item: over}, next.successor(), nil)
			if w.outcome == sessionWritten || err != nil {
				return b.currentSession(), err
			}
		}
		got, err := b.driver.Read(ctx, []Key{over.Key})
		if err != nil {
			return nil, err
		}
		// What is there is written over with another generation, and never goes on: it may be a late copy of an old
		// request, or too large to read.
		at, over = got.place(), got.Items[0]
	}
	return nil, errBusy
}

// A sessionOutcome says what became of a write of the session. It is 0 if there is an error.
type sessionOutcome int

const (
	// sessionWritten: the session has the new value, and is the current one.
	sessionWritten sessionOutcome = iota + 1

	// recordsChanged: nothing was written. The session is as it was, so one of the records that the write
	// was to check has changed.
	recordsChanged

	// sessionChanged: the write does not count, since the store has another session than s. If that one goes on from
	// s, it is the current session now. Otherwise there is none: the caller makes one of another generation, and moves
	// the leases to it.
	sessionChanged
)

// A sessionWrite is the result of writeSession.
type sessionWrite struct {
	outcome sessionOutcome
	stale   []int // if it was written: which of the checked records were compared after it, and have changed
}

// writeSession writes the next value of the session over s, on condition that the records in check have
// not changed: in the same step if they are few, otherwise they are compared after it. The caller holds
// the session mutex.
func (b *Backend) writeSession(ctx context.Context, s *session, next Session, check []Item) (sessionWrite, error) {
	now := b.limits.Now()
	next.At = now.UTC().Round(0)
	c := Change{Put: []Put{{s.item, &next}}}
	if len(check) <= b.limits.Checks {
		c.Check, check = check, nil
	}

	w, err := b.driver.Write(ctx, s.epoch, s.wentBack, []Change{c}, check)
	r := w.result(0)
	switch {
	case r.Outcome == backend.Granted && err == nil:
		b.setSession(&session{place: s.place, item: r.Items[0], value: next, at: now})
		return sessionWrite{sessionWritten, w.Stale}, nil
	case errors.Is(err, ErrEpoch), errors.Is(r.Err, ErrEpoch):
		b.setSession(nil)
		return sessionWrite{outcome: sessionChanged}, nil
	case err != nil:
		return sessionWrite{}, err
	case r.Outcome == backend.Unknown:
		return sessionWrite{}, r.Err
	case s.item.Version == "": // it was to be made, and somebody else has made it
		return sessionWrite{outcome: sessionChanged}, nil
	}
	return b.rereadSession(ctx, s, &next, len(check))
}

// rereadSession finds out why the store has refused to write next over s. compared is how many records were to be
// compared after the write.
func (b *Backend) rereadSession(ctx context.Context, s *session, next *Session, compared int) (sessionWrite, error) {
	got, err := b.driver.Read(ctx, []Key{s.item.Key})
	if err != nil {
		return sessionWrite{}, err
	}
	it := got.Items[0]
	v, valid := it.Value.(*Session)
	if !valid || it.Edited || it.Created != s.item.Created || v.Nonce != next.Nonce || v.Generation != next.Generation {
		b.setSession(nil)
		return sessionWrite{outcome: sessionChanged}, nil
	}

	// A renewal whose answer was lost is not trusted, but the next one follows it.
	b.setSession(&session{place: got.place(), item: it, value: *v})
	if it.Version == s.item.Version {
		return sessionWrite{outcome: recordsChanged}, nil
	}
	SetWrite(next, v.Write)
	if Encode(v) != Encode(next) {
		for _, election := range b.Held() { // a restored store that was not noticed may count their versions anew, too
			b.invalidate(election)
		}
		return sessionWrite{outcome: sessionChanged}, nil
	}

	// A copy of this very request came first. Nobody has compared the records after it.
	w := sessionWrite{outcome: sessionWritten}
	for n := range compared {
		w.stale = append(w.stale, n)
	}
	return w, nil
}

// errUnknown is the error of a change without an outcome and without a reason.
var errUnknown = errors.New("the store did not say whether it has applied the change")

// result returns what became of a change, if the driver has said it.
func (w *Written) result(i int) Result {
	if i < len(w.Results) && (w.Results[i].Outcome != backend.Unknown || w.Results[i].Err != nil) {
		return w.Results[i]
	}
	return Result{Err: errUnknown}
}

// leave deletes the session, or makes it that of no member if leases may be held.
func (b *Backend) leave(ctx context.Context) {
	unlock, err := b.lockSession(ctx)
	if err != nil {
		return
	}
	defer unlock()
	b.mu.Lock()
	s, holding := b.session, len(b.held) > 0
	b.mu.Unlock()
	if s == nil {
		return
	}
	put := Put{Over: s.item}
	if holding {
		next := s.value
		next.TTL = 0
		put.Value = &next
	}
	b.driver.Write(ctx, s.epoch, s.wentBack, []Change{{Put: []Put{put}}}, nil)
}
