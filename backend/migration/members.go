package migration

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Announce implements [backend.Backend]. It adds the stage, and writes to the stores that this
// process uses.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, m.Nonce); err != nil {
		return err
	}
	m.Stage = cmp.Or(m.Stage, string(b.stage))
	switch b.stage {
	case From:
		return b.old.Announce(ctx, m)
	case To:
		return b.new.Announce(ctx, m)
	}
	return parallel(func() error { return b.old.Announce(ctx, m) }, func() error { return b.new.Announce(ctx, m) })
}

// Members implements [backend.Backend]. It merges the members of both stores.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, ""); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Members(ctx, from, limit)
	}
	var olds, news []backend.Member
	err := parallel(func() (err error) {
		olds, err = b.old.Members(ctx, from, limit)
		return err
	}, func() (err error) {
		news, err = b.new.Members(ctx, from, limit)
		return err
	})
	if err != nil && (b.stage != To || news == nil) {
		return nil, fmt.Errorf("migration: members: %w", err)
	}
	all := merge(olds, news, func(m backend.Member) string { return string(m.Nonce) }, func(_, n backend.Member) backend.Member { return n })
	return all[:min(len(all), limit)], nil
}
