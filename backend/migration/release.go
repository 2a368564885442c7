package migration

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	if b.stage == From {
		return b.stores[older].Release(ctx, held)
	}
	olds := held
	if b.stage == To { // a bid before the seal may have left a lease there
		b.mu.Lock()
		olds = slices.DeleteFunc(slices.Clone(held), func(l backend.Held) bool {
			return l.Term != 0 || b.newDecides(b.pairOf(l.Election))
		})
		b.mu.Unlock()
	}
	if err := b.releaseBoth(ctx, [2][]backend.Held{olds, held}); err != nil {
		return fmt.Errorf("migration: release: %w", err)
	}
	return nil
}

// releaseBoth releases leases of both stores at the same time. A store that hangs or fails must not
// withhold the other lease from members that need only that one.
func (b *Backend) releaseBoth(ctx context.Context, held [2][]backend.Held) error {
	errs := b.both(func(s side) error {
		if len(held[s]) == 0 {
			return nil
		}
		return b.stores[s].Release(ctx, held[s])
	})
	return backend.Join(errs[newer], errs[older])
}

// releaseHalves releases what attempts hold that did not get everything. They have not led.
// If it is not certain that all is released, the answer is Unknown, and the manager releases
// it later.
func (b *Backend) releaseHalves(ctx context.Context, attempts []*attempt) {
	var held [2][]backend.Held
	for _, t := range attempts {
		for s, got := range t.got {
			if got.Outcome == backend.Granted {
				held[s] = append(held[s], backend.Held{
					Election: t.bid.Election, Term: got.Term, Holder: t.bid.Candidate, End: backend.Released,
				})
			}
		}
	}
	err := b.releaseBoth(ctx, held)

	for _, t := range attempts {
		if err != nil || t.got[older].Outcome == backend.Unknown || t.got[newer].Outcome == backend.Unknown {
			*t.answer = backend.Answer{}
		} else {
			t.refuse(b.note(t))
		}
		t.answer.Err = backend.Join(t.got[older].Err, t.got[newer].Err, err)
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
	for _, store := range b.stores {
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
