package election

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// prepare has the store made ready for candidates, once. Only one caller at a time does it;
// others wait for the outcome, until ctx ends.
func (m *Manager) prepare(ctx context.Context) error {
	p, ok := m.backend.(backend.Preparer)
	if !ok || m.opts.Observer || m.prepared.Load() {
		return nil
	}
	select {
	case m.preparing <- struct{}{}:
		defer func() { <-m.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.prepared.Load() {
		return nil
	}
	if err := p.Prepare(ctx); err != nil {
		return fmt.Errorf("election: prepare the store: %w", err)
	}
	m.prepared.Store(true)
	return nil
}
