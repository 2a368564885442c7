package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend]. It reads what this Backend's nonce
// holds, ends that, rings the notification lock, and reads again to make sure.
//
// A lease that another server wrote last is not held: no server renews it, and
// who comes next watches it whatever we write.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // it never held anything
	}
	var failed error
	for part := range slices.Chunk(held, grantChunk) {
		failed = errors.Join(failed, b.call(ctx, describe("release", len(part), part[0].Election), func(s *session) error {
			return s.release(ctx, part)
		}))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func (s *session) release(ctx context.Context, part []backend.Held) error {
	nonce := s.backend.owner.Nonce()
	names := make([]string, len(part))
	for n, l := range part {
		names[n] = l.Election
	}
	st, rows, err := s.read(ctx, fullSQL, names, nil)
	if err != nil {
		return err
	}
	var offers []rowChange
	for n, l := range part {
		r := &rows[n]
		if !r.found || !r.sameServer || r.Holder.Nonce != nonce || (l.Term != 0 && l.Term != r.Term) {
			continue
		}
		o := newRowChange(n, r, &st, 0, l.End)
		if l.Term != 0 {
			o.heartbeat = 0 // pinned to the term: a renewal that arrives late changes nothing
		}
		offers = append(offers, o)
	}
	if offers == nil {
		s.backend.notifier.markReleased(names...)
		return nil
	}
	text, args := s.changeValues(offers)
	args = append(args, []byte(nonce), newHeartbeat())
	if _, err := s.exec(ctx, s.fill(releaseSQL, text), args...); err != nil {
		return err
	}
	names = names[:0]
	for _, o := range offers {
		names = append(names, o.name)
	}
	// Before making sure: a follower that looks in vain has lost nothing.
	s.backend.notifier.markReleased(names...)
	s.backend.notify(ctx)
	if _, rows, err = s.read(ctx, lightSQL, names, nil); err != nil {
		return err
	}
	for n, o := range offers {
		if r := &rows[n]; r.found && r.sameServer && r.Holder.Nonce == nonce && r.Term == o.term {
			s.backend.notifier.markHeld(o.name)
			err = fmt.Errorf("%q: %w", o.name, errLocked)
		}
	}
	return err
}
