package migration

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preparer = (*Backend)(nil)

// Prepare implements [backend.Preparer], for the stores that this stage uses.
func (b *Backend) Prepare(ctx context.Context) error {
	var errs []error
	for _, store := range []backend.Backend{b.old, b.new} {
		if store == b.old && b.stage == To || store == b.new && b.stage == From {
			continue
		}
		if p, ok := store.(backend.Preparer); ok {
			errs = append(errs, p.Prepare(ctx))
		}
	}
	return errors.Join(errs...)
}
