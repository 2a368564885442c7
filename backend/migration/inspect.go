package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect asks the stores that this process uses, if they are Inspectors. Each diagnostic
// begins with the store's name. If one store cannot be read, Inspect returns the diagnostics
// of the other beside the error. At stage To an old store that cannot be read is only a
// warning: elections that are sealed there do not need it.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return inspect(ctx, b.oldName, b.old, ttl, renew)
	}
	var fromOld, fromNew []backend.Diagnostic
	var oldErr, newErr error
	parallel(
		func() error { fromOld, oldErr = inspect(ctx, b.oldName, b.old, ttl, renew); return nil },
		func() error { fromNew, newErr = inspect(ctx, b.newName, b.new, ttl, renew); return nil },
	)
	if b.stage == To && oldErr != nil {
		text := fmt.Sprintf("%v; only elections that are not sealed there need it", oldErr)
		fromOld, oldErr = []backend.Diagnostic{{What: "servers", Text: clean.Text(text, 1000, true), Warning: true}}, nil
	}
	return append(fromOld, fromNew...), errors.Join(oldErr, newErr)
}

// inspect asks one store, and puts its name before each diagnostic.
func inspect(ctx context.Context, name string, store backend.Backend, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	i, ok := store.(backend.Inspector)
	if !ok {
		return nil, nil
	}
	list, err := i.Inspect(ctx, ttl, renew)
	for n := range list {
		list[n].Text = name + ": " + list[n].Text
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return list, err
}
