//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Release writes the end of each leadership into its record, and then unlocks.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return fail("release", err)
	}
	var errs []error
	for i, l := range held {
		if err := ctx.Err(); err != nil {
			return fail(fmt.Sprintf("release %d of %d leases", len(held)-i, len(held)), backend.Join(append(errs, err)...))
		}
		if err := b.release(ctx, l); err != nil {
			errs = append(errs, fail(fmt.Sprintf("release %q", l.Election), err))
		}
	}
	return backend.Join(errs...)
}

// release unlocks even if the record cannot be written. Then the leadership counts as
// failed.
func (b *Backend) release(ctx context.Context, l backend.Held) error {
	done, err := b.serialize(ctx, l.Election)
	if err != nil {
		return err
	}
	defer done()
	h := b.heldLock(l.Election)
	if h == nil || l.Term != 0 && l.Term != h.term {
		return nil
	}
	r, _, err := b.readRecord(l.Election)
	now, err2 := identityAt(b.path(l.Election, lockSuffix))
	err = errors.Join(err, err2)
	if err == nil && now == h.id && r.Term == h.term && r.held() && r.Holder.Nonce == h.rec.Holder.Nonce {
		r.endLeadership(l.End, time.Now(), l.ExpiredFor())
		r.Heartbeat, r.Written = heartbeat(), time.Now().UTC()
		err = b.writeRecord(r, false)
	}
	return errors.Join(err, b.unlock(l.Election, h))
}
