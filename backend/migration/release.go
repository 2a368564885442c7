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
	var err error
	switch b.stage {
	case From:
		return b.old.Release(ctx, held)
	case To:
		var olds []backend.Held // left by an earlier bid
		b.mu.Lock()
		for _, l := range held {
			if p := b.pairs[l.Election]; l.Term == 0 && (p == nil || !b.newDecides(p)) {
				olds = append(olds, l)
			}
		}
		b.mu.Unlock()
		if err = b.new.Release(ctx, held); err == nil && olds != nil {
			err = b.old.Release(ctx, olds)
		}
	default:
		// The old lease, too, if the new store does not answer: members at From need only
		// that one, and this process leads no more.
		err = b.releaseBoth(ctx, held, held)
	}
	if err != nil {
		return fmt.Errorf("migration: release: %w", err)
	}
	return nil
}

// releaseBoth releases leases of both stores at the same time. A store that hangs must not
// withhold the other lease from members that need only that one.
func (b *Backend) releaseBoth(ctx context.Context, olds, news []backend.Held) error {
	var oldErr, newErr error
	parallel(func() error { oldErr = b.releaseAll(ctx, b.old, olds); return nil },
		func() error { newErr = b.releaseAll(ctx, b.new, news); return nil })
	return backend.Join(newErr, oldErr)
}

func (b *Backend) releaseAll(ctx context.Context, store backend.Backend, held []backend.Held) error {
	if len(held) == 0 {
		return nil
	}
	return store.Release(ctx, held)
}

// releaseLeftovers releases a lease of an earlier bid whose other half has another holder.
func (b *Backend) releaseLeftovers(ctx context.Context, attempts []*attempt, answers []backend.Answer) {
	for _, t := range attempts {
		left := []backend.Held{{Election: t.bid.Election, Holder: t.bid.Candidate, End: backend.Released}}
		if err := b.releaseBoth(ctx, left, left); err != nil {
			answers[t.i] = backend.Answer{Err: err}
		}
	}
}

// releaseHalves releases what attempts hold that did not get everything. They have not led.
// If it is not certain that all is released, the answer is Unknown, and the manager releases
// it later.
func (b *Backend) releaseHalves(ctx context.Context, attempts []*attempt, answers []backend.Answer) {
	if len(attempts) == 0 {
		return
	}
	var olds, news []backend.Held
	for _, t := range attempts {
		held := backend.Held{Election: t.bid.Election, Holder: t.bid.Candidate, End: backend.Released}
		if t.new.Outcome == backend.Granted {
			held.Term = t.new.Term
			news = append(news, held)
		}
		if t.old.Outcome == backend.Granted { // even if the new store does not answer: members at From need only this one
			held.Term = t.old.Term
			olds = append(olds, held)
		}
	}
	err := b.releaseBoth(ctx, olds, news)
	for _, t := range attempts {
		if unknown := t.old.Outcome == backend.Unknown || t.new.Outcome == backend.Unknown; unknown || err != nil {
			answers[t.i] = backend.Answer{Err: backend.Join(t.old.Err, t.new.Err, err)}
			continue
		}
		answers[t.i] = backend.Answer{Outcome: backend.Refused, Lease: b.noteAnswers(t.bid.Election, &t.old, &t.new)}
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
		a, ok := store.(backend.Adopter)
		if !ok {
			continue
		}
		if err := a.Adopt(nonce, held); err != nil {
			return fmt.Errorf("migration: %w", err)
		}
	}
	return nil
}

// CanAdopt reports whether each lease that a leader of this stage must hold is free when it has been
// released for the dead leader: see [backend.CanAdopt]. Where the kernel frees it, nothing is to be done.
func (b *Backend) CanAdopt() error {
	needed := []backend.Backend{b.old, b.new}
	switch b.stage {
	case From:
		needed = needed[:1]
	case To:
		needed = needed[1:]
	}
	for _, store := range needed {
		if store.Guarantees().Expiry == backend.ByKernel {
			continue
		}
		if err := backend.CanAdopt(store); err != nil {
			return fmt.Errorf("%w, and at stage %q this process leads by it", err, b.stage)
		}
	}
	return nil
}
