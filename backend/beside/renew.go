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
	ready, err := b.sealFirst(ctx, held, answers)
	if len(ready) == 0 {
		return answers, err
	}

	marks := make([]backend.Held, len(ready))
	for n, i := range ready {
		marks[n] = held[i]
	}
	marked, markErr := b.inner.Mark(ctx, marks)
	err = backend.Join(err, markErr, b.keep(ctx, marked))
	for n, a := range marked {
		answers[ready[n]] = a
	}
	return answers, err
}

// sealFirst seals the locks of those leases that get the mark. It returns the indices of the leases that
// may be marked, and answers the others.
func (b *Backend) sealFirst(ctx context.Context, held []backend.Held, answers []backend.Answer) ([]int, error) {
	var ready, sealing []int
	var owned []Owned
	var names []string
	for i, h := range held {
		if h.MovedTo == "" {
			ready = append(ready, i)
			continue
		}
		sealing, owned, names = append(sealing, i), append(owned, ownedBy(h)), append(names, h.Election)
	}
	if owned == nil {
		return ready, nil
	}

	pairs, err := b.read(ctx, names)
	if err != nil {
		return nil, err
	}
	results, err := b.lock.Keep(ctx, owned)
	for n, i := range sealing {
		switch r := result(results, n, err); r.Outcome {
		case backend.Granted:
			ready = append(ready, i)
		case backend.Refused:
			answers[i] = backend.Answer{Lease: pairs[n].lease, Outcome: backend.Refused, Err: r.Err}
		default:
			answers[i] = backend.Answer{Err: r.Err}
		}
	}
	return ready, err
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
	return backend.Join(b.keepGranted(ctx, granted, owned), b.showRefused(ctx, refused, names))
}

func (b *Backend) keepGranted(ctx context.Context, answers []*backend.Answer, owned []Owned) error {
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
