package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend]. It reads what this Backend's nonce
// holds, ends that, and reads again to make sure. Then it rings the door-bell.
//
// A lease that another server wrote last is not held: no server renews it, and
// who comes next watches it whatever we write.
func (b *Backend) Release(ctx context.Context, held []backend.Lease) error {
	if err := b.enter(""); err != nil {
		return err
	}
	if b.self() == "" {
		return nil // it never held anything
	}
	var failed error
	released := false
	for part := range slices.Chunk(held, grantChunk) {
		failed = errors.Join(failed, b.on(ctx, about("release", len(part), part[0].Election), func(s *session) error {
			any, err := s.release(ctx, part)
			released = released || any
			return err
		}))
		if ctx.Err() != nil {
			break
		}
	}
	if released {
		b.ring(ctx)
	}
	return failed
}

func (s *session) release(ctx context.Context, part []backend.Lease) (released bool, err error) {
	nonce := s.backend.self()
	names := make([]string, len(part))
	for n, l := range part {
		names[n] = l.Election
	}
	st, rows, err := s.read(ctx, fullSQL, names, nil)
	if err != nil {
		return false, err
	}
	var offers []offer
	for n, l := range part {
		r := &rows[n]
		if !r.found || !r.same || r.Holder.Nonce != nonce || (l.Term != 0 && l.Term != r.Term) {
			continue
		}
		o := newOffer(n, r, &st, 0, l.End)
		if l.Term != 0 {
			o.beat = 0 // pinned to the term: a renewal that arrives late changes nothing
		}
		offers = append(offers, o)
	}
	if offers == nil {
		s.backend.bell.released(names...)
		return false, nil
	}
	text, args := s.offered(offers)
	args = append(args, []byte(nonce), newBeat())
	if _, err := s.exec(ctx, s.of(releaseSQL, text), args...); err != nil {
		return false, err
	}
	names = names[:0]
	for _, o := range offers {
		names = append(names, o.name)
	}
	if _, rows, err = s.read(ctx, lightSQL, names, nil); err != nil {
		return true, err
	}
	for n, o := range offers {
		if r := &rows[n]; r.found && r.same && r.Holder.Nonce == nonce && r.Term == o.term {
			err = fmt.Errorf("%q: %w", o.name, errLocked)
			continue
		}
		s.backend.bell.released(o.name)
	}
	return true, err
}
