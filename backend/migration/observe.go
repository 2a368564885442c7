package migration

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Observe implements [backend.Backend].
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Observe(ctx, seen)
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	if err := b.read(ctx, names); err != nil {
		return nil, fmt.Errorf("migration: observe: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range seen {
		if v := b.pairs[l.Election].combined; v.Election != "" && (l.Version == "" || v.Differs(l)) {
			changed = append(changed, v)
		}
	}
	return changed, nil
}
