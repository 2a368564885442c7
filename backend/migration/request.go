package migration

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
)

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
	return errors.Join(errs...)
}
