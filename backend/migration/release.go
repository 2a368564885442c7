package migration

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	if b.stage == From {
		return b.old.Release(ctx, held)
	}
	// The old lease, too, if the new store does not answer: members at From need only that one.
	olds := held
	if b.stage == To {
		olds = b.leftInOld(held)
	}
	if err := b.releaseBoth(ctx, olds, held); err != nil {
		return fmt.Errorf("migration: release: %w", err)
	}
	return nil
}

// leftInOld returns the leases that a bid at stage To may have left in the old store.
func (b *Backend) leftInOld(held []backend.Held) (left []backend.Held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range held {
		if l.Term == 0 && !b.newDecides(b.pairOf(l.Election)) {
			left = append(left, l)
		}
	}
	return left
}

// releaseBoth releases leases of both stores at the same time. A store that hangs must not
// withhold the other lease from members that need only that one.
func (b *Backend) releaseBoth(ctx context.Context, olds, news []backend.Held) error {
	oldErr, newErr := parallel(
		func() error { return releaseAll(ctx, b.old, olds) },
		func() error { return releaseAll(ctx, b.new, news) },
	)
	return backend.Join(newErr, oldErr)
}

func releaseAll(ctx context.Context, store backend.Backend, held []backend.Held) error {
	if len(held) == 0 {
		return nil
	}
	return store.Release(ctx, held)
}

// releaseHalves releases what attempts hold that did not get everything. They have not led.
// If it is not certain that all is released, the answer is Unknown, and the manager releases
// it later. It releases the old lease even if the new store does not answer.
func (b *Backend) releaseHalves(ctx context.Context, attempts []*attempt) {
	var olds, news []backend.Held
	for _, t := range attempts {
		held := backend.Held{Election: t.bid.Election, Holder: t.bid.Candidate, End: backend.Released}
		if t.new.Outcome == backend.Granted {
			held.Term = t.new.Term
			news = append(news, held)
		}
		if t.old.Outcome == backend.Granted {
			held.Term = t.old.Term
			olds = append(olds, held)
		}
	}
	err := b.releaseBoth(ctx, olds, news)

	for _, t := range attempts {
		if err != nil || t.old.Outcome == backend.Unknown || t.new.Outcome == backend.Unknown {
			*t.answer = backend.Answer{}
		} else {
			t.refuse(b.note(t))
		}
		t.answer.Err = backend.Join(t.old.Err, t.new.Err, err)
	}
}

// Adopt implements [backend.Adopter].
func (b *Backend) Adopt(nonce backend.Nonce, held []backend.Held) error {
	if err := b.CanAdopt(); err != nil {
		return fmt.Errorf("migration: %w: %w", backend.ErrInvalid, err)
	}
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("migration: %w", err)
	}
	for _, store := range []backend.Backend{b.old, b.new} {
		if a, ok := store.(backend.Adopter); ok {
			if err := a.Adopt(nonce, held); err != nil {
				return fmt.Errorf("migration: %w", err)
			}
		}
	}
	return nil
}

// CanAdopt reports whether each lease that a leader of this stage must hold is free when it has been
// released for the dead leader: see [backend.CanAdopt]. Where the kernel frees it, nothing is to be done.
func (b *Backend) CanAdopt() error {
	for _, store := range b.needed() {
		if store.Guarantees().Expiry == backend.ByKernel {
			continue
		}
		if err := backend.CanAdopt(store); err != nil {
			return fmt.Errorf("%w, and at stage %q this process leads by it", err, b.stage)
		}
	}
	return nil
}
