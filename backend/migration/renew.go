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
	switch b.stage {
	case From:
		return b.old.Renew(ctx, held)
	case To:
		return b.new.Renew(ctx, held)
	}
	var olds, news []backend.Answer
	var oldErr, newErr error
	parallel(func() error { olds, oldErr = b.old.Renew(ctx, held); return nil },
		func() error { news, newErr = b.new.Renew(ctx, held); return nil })
	answers := make([]backend.Answer, len(held))
	for i := range answers {
		o, n := item(olds, i, oldErr), item(news, i, newErr)
		answers[i] = backend.Answer{Err: backend.Join(o.Err, n.Err)}
		if o.Outcome != backend.Unknown && n.Outcome != backend.Unknown || o.Outcome == backend.Refused || n.Outcome == backend.Refused {
			answers[i].Lease = b.noteAnswers(held[i].Election, &o, &n)
			answers[i].Outcome = min(o.Outcome, n.Outcome)
			if answers[i].Outcome == backend.Unknown {
				answers[i].Outcome = backend.Refused
			}
		}
		if answers[i].Outcome == backend.Granted {
			answers[i].ValidFor = min(o.ValidFor, n.ValidFor)
		}
	}
	if err := backend.Join(oldErr, newErr); err != nil {
		return answers, fmt.Errorf("migration: renew: %w", err)
	}
	return answers, nil
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
	switch b.stage {
	case From:
		return b.old.Request(ctx, requests)
	case To:
		return b.new.Request(ctx, requests)
	}
	var errs []error
	for _, r := range requests {
		o, n := b.old.Request(ctx, []backend.Request{r}), b.new.Request(ctx, []backend.Request{r})
		switch stale := errors.Is(n, backend.ErrStale); {
		case stale && o != nil:
			errs = append(errs, o)
		case !stale && n != nil:
			errs = append(errs, n)
		case n == nil && o != nil && !errors.Is(o, backend.ErrStale):
			errs = append(errs, o)
		}
	}
	return backend.Join(errs...)
}
