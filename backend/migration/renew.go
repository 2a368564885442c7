package migration

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. At stage Both a lease is renewed if both stores renew
// it, and is valid for the lesser time of the two.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	if b.stage != Both {
		return b.needed()[0].Renew(ctx, held)
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
	if err := backend.Join(errs[:]...); err != nil {
		return answers, fmt.Errorf("migration: renew: %w", err)
	}
	return answers, nil
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
	if err := b.enter(ctx, ""); err != nil {
		return err
	}
	if b.stage != Both {
		return b.needed()[0].Request(ctx, requests)
	}

	var errs []error
	for _, r := range requests {
		one := []backend.Request{r}
		oldErr, newErr := b.stores[older].Request(ctx, one), b.stores[newer].Request(ctx, one)
		switch {
		case errors.Is(newErr, backend.ErrStale):
			errs = append(errs, oldErr)
		case errors.Is(oldErr, backend.ErrStale):
			errs = append(errs, newErr)
		default:
			errs = append(errs, newErr, oldErr)
		}
	}
	return backend.Join(errs...)
}
