package beside

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. It renews the leases, then the locks. The lesser time counts.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	answers, err := b.inner.Renew(ctx, held)
	return answers, backend.Join(err, b.keep(ctx, answers))
}

// Mark implements [backend.Marker]. A lock is sealed before the mark is written beside its lease, and
// unsealed after the mark is removed.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.Enter(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	for i, h := range held {
		if h.MovedTo != "" {
			seal := backend.Lease{Election: h.Election, Holder: h.Holder, Term: h.Term, MovedTo: h.MovedTo}
			answers[i] = backend.Answer{Lease: seal, Outcome: backend.Granted}
		}
	}
	sealErr := b.keep(ctx, answers)

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

// keep renews the locks beside leases that are held, and turns answers about leases into answers about both.
func (b *Backend) keep(ctx context.Context, answers []backend.Answer) error {
	var held []*backend.Answer
	var owned []Owned
	for i := range answers {
		if a := &answers[i]; a.Outcome == backend.Granted {
			held, owned = append(held, a), append(owned, ownedBy(a.Held()))
		}
	}
	if owned == nil {
		return nil
	}

	results, err := b.lock.Keep(ctx, owned)
	for i, a := range held {
		r := result(results, i, err)
		if r.Outcome == backend.Unknown {
			*a = backend.Answer{Err: r.Err}
			continue
		}
		p := pair{a.Lease, r.State}
		a.Lease, a.Outcome, a.Err = p.lease(), r.Outcome, r.Err
		a.ValidFor = min(a.ValidFor, r.ValidFor)
	}
	return err
}

// Release implements [backend.Backend]. It gives the locks back, then the leases.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	return b.release(ctx, held)
}

func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	owned := b.taken(held)
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
	b.mu.Unlock()
	return b.inner.Release(ctx, held)
}

// taken returns the locks that this process may have taken beside leases that it releases. A lease that is
// released in another term than that in which the lock was taken has no lock.
func (b *Backend) taken(held []backend.Held) (owned []Owned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		if term := b.takenIn[h.Election]; term != 0 && (h.Term == 0 || h.Term == term) {
			owned = append(owned, Owned{Election: h.Election, ID: h.Holder.ID, Term: term})
		}
	}
	return owned
}

// Adopt implements [backend.Adopter]. The locks that the process has taken are given back as the leases are.
func (b *Backend) Adopt(nonce backend.Nonce, held []backend.Held) error {
	b.mu.Lock()
	for _, h := range held {
		b.takenIn[h.Election] = h.Term
	}
	b.mu.Unlock()
	return b.inner.Adopt(nonce, held)
}
