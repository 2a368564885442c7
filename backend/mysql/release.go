package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend]. It reads what this Backend's nonce holds, releases
// that, notifies the followers, and reads again to confirm.
//
// A lease that another server wrote last is not held: no server renews it, and the
// successor observes it whatever we write.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // it never held anything
	}
	var failed error
	for part := range slices.Chunk(held, grantChunk) {
		if err := ctx.Err(); err != nil { // nothing is known of the rest
			return errors.Join(failed, b.fail(describe("release", len(held), held[0].Election), err))
		}
		failed = errors.Join(failed, b.call(ctx, describe("release", len(part), part[0].Election), func(s *session) error {
			return s.release(ctx, part)
		}))
	}
	return failed
}

func (s *session) release(ctx context.Context, part []backend.Held) error {
	nonce := s.backend.owner.Nonce()
	if s.backend.adopted {
		defer s.ring(ctx)()
	}
	names := make([]string, len(part))
	for n, l := range part {
		names[n] = l.Election
	}
	st, rows, err := s.read(ctx, fullSQL, names, nil)
	if err != nil {
		return err
	}
	var changes []rowChange
	for n, l := range part {
		r := &rows[n]
		if !r.found || !r.sameServer || r.Holder.Nonce != nonce || (l.Term != 0 && l.Term != r.Term) {
			continue
		}
		c := newRowChange(n, r, &st, 0, l.End)
		if l.Term != 0 {
			c.heartbeat = 0 // pinned to the term alone, in spite of renewals that arrive late
		}
		changes = append(changes, c)
	}
	if changes == nil {
		s.backend.notifier.markReleased(names...)
		return nil
	}
	text, args := s.changeValues(changes)
	args = append(args, []byte(nonce), newHeartbeat())
	if _, err := s.exec(ctx, s.fill(releaseSQL, text), args...); err != nil {
		return err
	}
	names = names[:0]
	for _, c := range changes {
		names = append(names, c.name)
	}
	// Followers are notified before the read that confirms: reading too early costs them
	// nothing.
	s.backend.notifier.markReleased(names...)
	s.backend.notify(ctx)
	if _, rows, err = s.read(ctx, lightSQL, names, nil); err != nil {
		return err
	}
	for n, c := range changes {
		if r := &rows[n]; r.found && r.sameServer && r.Holder.Nonce == nonce && r.Term == c.term {
			s.backend.notifier.markHeld(c.name)
			err = fmt.Errorf("%q: %w", c.name, errLocked)
		}
	}
	return err
}

// Adopt implements [backend.Adopter].
func (b *Backend) Adopt(nonce backend.Nonce, _ []backend.Held) error {
	b.adopted = true
	return b.enter(nonce)
}

// ring takes the notification lock of a process that has ended, and returns what releases it. The end of
// that process has woken the followers too early. They look for its lock once more.
func (s *session) ring(ctx context.Context) (release func()) {
	b := s.backend
	name := b.notifyLockName(b.owner.Nonce())
	if _, err := b.queryNumber(ctx, s.conn, retakeLockSQL, name); err != nil {
		b.notifier.detectUnsupported(err)
		return func() {}
	}
	return func() { b.queryNumber(ctx, s.conn, releaseLockSQL, name) }
}
