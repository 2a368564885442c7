package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Preflight implements [backend.Preflighter].
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	if err := b.enter(ctx, "preflight", bids[0].Candidate.Nonce); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// Inspect implements [backend.Inspector].
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	return nil, fmt.Errorf("todo")
}
