package lease

import (
	"context"
	"errors"
	"time"

	"github.com/go-election/go-election/backend"
)

// A session is this process's session as it was last read or written.
type session struct {
	source
	item  Item
	value Session
	at    time.Time // when it was last written; zero: unknown
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

	next := Session{ID: c.ID, Nonce: string(c.Nonce), Address: c.Address, Metadata: c.Metadata}
	for range rounds {
		got, err := b.driver.Read(ctx, []Key{b.sessionKey()})
		if err != nil {
			return nil, err
		}
		// What is there is written over with another generation, and never goes on: it may be a late copy of
		// an old request, or too large to read.
		there := &session{source: got.source(), item: got.Items[0]}
		written, _, err := b.writeSession(ctx, there, next.successor(), nil)
		if written || err != nil {
			return b.currentSession(), err
		}
	}
	return nil, errBusy
}

// writeSession writes the next value of the session over s, on condition that the records in check have not
// changed: in the same step if they are few, otherwise they are compared after it, and stale are the indexes
// of those that have changed. If nothing counts as written, the current session is that which is there, or
// none if it does not go on from s: then the caller makes one of another generation, and moves the leases to
// it. The caller holds the session mutex.
func (b *Backend) writeSession(
	ctx context.Context, s *session, next Session, check []Item,
) (written bool, stale []int, err error) {
	now := b.limits.Now()
	next.At = now.UTC().Round(0)
	c, verify := Change{Put: []Put{{s.item, &next}}}, check
	if len(check) <= b.limits.Checks {
		c.Check, verify = check, nil
	}

	w, err := b.driver.Write(ctx, s.epoch, s.wentBack, []Change{c}, verify)
	r := w.result(0)
	switch {
	case r.Outcome == backend.Granted && err == nil:
		b.setSession(&session{source: s.source, item: r.Items[0], value: next, at: now})
		return true, w.Stale, nil
	case errors.Is(err, ErrEpoch), errors.Is(r.Err, ErrEpoch):
		b.setSession(nil)
		return false, nil, nil
	case err != nil:
		return false, nil, err
	case r.Outcome == backend.Unknown:
		return false, nil, r.Err
	case s.item.Version == "": // it was to be made, and somebody else has made it
		return false, nil, nil
	}
	return false, nil, b.rereadSession(ctx, s)
}

// rereadSession reads the session after the store has refused to write over s. It may go on from s: a renewal
// whose answer was lost is not trusted, but the next one follows it. Or one of the records has changed, or a
// restored store that was not noticed counts versions anew: all are read before the next renewal.
func (b *Backend) rereadSession(ctx context.Context, s *session) error {
	got, err := b.driver.Read(ctx, []Key{s.item.Key})
	if err != nil {
		return err
	}
	it := got.Items[0]
	v, valid := it.Value.(*Session)
	same := valid && !it.Edited && it.Created == s.item.Created
	if !same || v.Nonce != s.value.Nonce || v.Generation != s.value.Generation {
		b.setSession(nil)
		return nil
	}

	b.setSession(&session{source: got.source(), item: it, value: *v})
	for _, election := range b.Held() {
		b.invalidate(election)
	}
	return nil
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

// leave deletes the session, unless leases may be held.
func (b *Backend) leave(ctx context.Context) {
	unlock, err := b.lockSession(ctx)
	if err != nil {
		return
	}
	defer unlock()
	b.mu.Lock()
	s, holding := b.session, len(b.held) > 0
	b.mu.Unlock()
	if s != nil && !holding {
		b.driver.Write(ctx, s.epoch, s.wentBack, []Change{{Put: []Put{{Over: s.item}}}}, nil)
	}
}
