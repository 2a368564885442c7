package beside

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. It renews the leases, then the locks. A renewal counts for the lesser
// time of the two.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
		return nil, err
	}
	answers, err := b.inner.Renew(ctx, held)
	return answers, backend.Join(err, b.keep(ctx, answers))
}

// Mark implements [backend.Marker]. A lock is sealed before the mark is written beside its lease, and
// unsealed after the mark is removed.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	sealErr := b.seal(ctx, held, answers)

	var marks []backend.Held
	var of []int // answer by mark
	for i, h := range held {
		if h.MovedTo == "" || answers[i].Outcome == backend.Granted {
			marks, of = append(marks, h), append(of, i)
			answers[i] = backend.Answer{}
		}
	}
	if marks == nil {
		return answers, sealErr
	}
	marked, err := b.inner.Mark(ctx, marks)
	err = backend.Join(sealErr, err, b.keep(ctx, marked))
	for n, a := range marked {
		answers[of[n]] = a
	}
	return answers, err
}

// seal seals the locks beside those leases that get the mark, and says which are sealed.
func (b *Backend) seal(ctx context.Context, held []backend.Held, answers []backend.Answer) error {
	var names []string
	var sealing []*backend.Answer
	var owned []Owned
	for i, h := range held {
		if h.MovedTo != "" {
			names = append(names, h.Election)
			sealing, owned = append(sealing, &answers[i]), append(owned, ownedBy(h))
		}
	}
	if names == nil {
		return nil
	}

	pairs, err := b.read(ctx, names)
	if err != nil {
		return err
	}
	for n, a := range sealing {
		a.Lease = pairs[n].inner
	}
	return b.keepLocks(ctx, sealing, owned)
}

// keep renews the locks of leases that were renewed or marked, and turns the answers about leases into
// answers about both.
func (b *Backend) keep(ctx context.Context, answers []backend.Answer) error {
	var granted, refused []*backend.Answer
	var owned []Owned
	var names []string
	for i := range answers {
		switch a := &answers[i]; a.Outcome {
		case backend.Granted:
			granted, owned = append(granted, a), append(owned, ownedBy(a.Held()))
		case backend.Refused:
			refused, names = append(refused, a), append(names, a.Election)
		}
	}
	return backend.Join(b.keepLocks(ctx, granted, owned), b.showRefused(ctx, refused, names))
}

// keepLocks renews locks, and completes the answers about the leases beside them.
func (b *Backend) keepLocks(ctx context.Context, answers []*backend.Answer, owned []Owned) error {
	if len(owned) == 0 {
		return nil
	}
	results, err := b.lock.Keep(ctx, owned)
	for i, a := range answers {
		r := result(results, i, err)
		if r.Outcome == backend.Unknown {
			*a = backend.Answer{Err: r.Err}
			continue
		}

		p := pair{inner: a.Lease, state: r.State}
		b.combine(&p)
		*a = backend.Answer{Lease: p.lease, Outcome: r.Outcome, ValidFor: min(a.ValidFor, r.ValidFor), Err: r.Err}
	}
	return err
}

// showRefused completes the answers about leases that were lost: who has the lock now?
func (b *Backend) showRefused(ctx context.Context, answers []*backend.Answer, names []string) error {
	if len(names) == 0 {
		return nil
	}
	states, err := b.lock.Read(ctx, names)
	for i, a := range answers {
		if err != nil {
			*a = backend.Answer{Err: err}
			continue
		}
		if a.Election == "" {
			continue // refused for another reason than the lease
		}
		p := pair{inner: a.Lease, state: states[i]}
		b.combine(&p)
		a.Lease = p.lease
	}
	return err
}

// Release implements [backend.Backend]. It gives the locks back, then the leases.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return err
	}
	return b.release(ctx, held)
}

func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	if b.self().Nonce == "" {
		return nil // it has never held anything
	}
	owned, err := b.taken(ctx, held)
	if err != nil {
		return err
	}
	if owned != nil {
		if err := b.lock.Drop(ctx, owned); err != nil {
			return err
		}
	}

	b.mu.Lock()
	for _, o := range owned {
		if b.takenIn[o.Election] == o.Term {
			delete(b.takenIn, o.Election)
		}
	}
	for _, h := range held {
		delete(b.shown, h.Election)
	}
	b.mu.Unlock()
	return b.inner.Release(ctx, held)
}

// taken returns the locks that this process may have taken beside leases that it releases. A lease that is
// released in another term than that in which the lock was taken has no lock.
func (b *Backend) taken(ctx context.Context, held []backend.Held) (owned []Owned, err error) {
	var unknown []string
	b.mu.Lock()
	me := b.candidate
	for _, h := range held {
		term := b.takenIn[h.Election]
		switch {
		case term != 0 && (h.Term == 0 || h.Term == term):
			owned = append(owned, Owned{Election: h.Election, ID: me.ID, Term: term})
		case b.adopted && h.Term == 0:
			unknown = append(unknown, h.Election)
		}
	}
	b.mu.Unlock()
	if unknown == nil {
		return owned, nil
	}

	leases, err := b.readLeases(ctx, unknown)
	for _, l := range leases {
		if l.Holder.Nonce == me.Nonce {
			owned = append(owned, Owned{Election: l.Election, ID: l.Holder.ID, Term: l.Term})
		}
	}
	return owned, err
}

// Adopt implements [backend.Adopter]. The locks that the process has taken are given back as the leases are.
func (b *Backend) Adopt(nonce backend.Nonce, held []backend.Held) error {
	if err := b.CanAdopt(); err != nil {
		return fmt.Errorf("%s: %w: %w", b.name, backend.ErrInvalid, err)
	}
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}

	b.mu.Lock()
	b.candidate, b.adopted = backend.Candidate{Nonce: nonce}, true
	for _, h := range held {
		b.takenIn[h.Election] = h.Term
	}
	b.mu.Unlock()
	return b.inner.(backend.Adopter).Adopt(nonce, held)
}

// CanAdopt reports whether the inner Backend can: see [backend.CanAdopt].
func (b *Backend) CanAdopt() error { return backend.CanAdopt(b.inner) }
