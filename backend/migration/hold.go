package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. At stage Both a lease is renewed if both stores renew
// it, and is valid for the lesser time of the two.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, "renew", held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	if b.stage != Both {
		return b.Needed()[0].Renew(ctx, held)
	}

	var got [2][]backend.Answer
	errs := b.both(func(s side) (err error) {
		got[s], err = b.stores[s].Renew(ctx, held)
		return err
	})
	answers := make([]backend.Answer, len(held))
	for i, h := range held {
		answers[i] = b.renewed(h.Election, item(got[older], i, errs[older]), item(got[newer], i, errs[newer]))
	}
	return answers, wrap("renew", backend.Join(errs[:]...))
}

// renewed combines the answers of both stores. A leadership is lost with either lease.
func (b *Backend) renewed(election string, o, n backend.Answer) backend.Answer {
	a := backend.Answer{Err: backend.Join(o.Err, n.Err)}
	switch {
	case o.Outcome == backend.Granted && n.Outcome == backend.Granted:
		a.Outcome, a.ValidFor = backend.Granted, min(o.ValidFor, n.ValidFor)
	case o.Outcome == backend.Refused || n.Outcome == backend.Refused:
		a.Outcome = backend.Refused
	default:
		return a
	}
	a.Lease = b.note(&attempt{bid: backend.Bid{Election: election}, got: [2]backend.Answer{o, n}})
	return a
}

// item returns answer i, which is Unknown if there is none.
func item(answers []backend.Answer, i int, err error) (a backend.Answer) {
	if i < len(answers) {
		a = answers[i]
	}
	if a.Outcome == backend.Unknown && a.Err == nil {
		a.Err = err
	}
	return a
}

// Request implements [backend.Backend]. It writes each request into the store that has its
// term. A leadership at stage Both has the same term in both stores.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(ctx, "request", ""); err != nil {
		return err
	}
	if b.stage != Both {
		return b.Needed()[0].Request(ctx, requests)
	}

	var errs []error
	for _, r := range requests {
		one := []backend.Request{r}
		oldErr, newErr := b.stores[older].Request(ctx, one), b.stores[newer].Request(ctx, one)
		if errors.Is(newErr, backend.ErrStale) {
			newErr = nil
		} else if errors.Is(oldErr, backend.ErrStale) {
			oldErr = nil
		}
		errs = append(errs, newErr, oldErr)
	}
	return wrap("request", backend.Join(errs...))
}

func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, "release", ""); err != nil {
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
	return wrap("release", b.releaseBoth(ctx, [2][]backend.Held{olds, held}))
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

// releaseHalves releases what attempts hold that did not get everything. They have not led. If that is not
// certain, the answer is Unknown, and the manager releases it later.
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
	for _, store := range b.Needed() {
		if store.Guarantees().Expiry == backend.ByKernel {
			continue
		}
		if err := backend.CanAdopt(store); err != nil {
			return fmt.Errorf("%w, and at stage %q this process leads by it", err, b.stage)
		}
	}
	return nil
}
