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
	if !ok || m.opts.Observer {
		return nil
	}
	select {
	case _, unprepared := <-m.unprepared:
		if !unprepared {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := p.Prepare(ctx); err != nil {
		m.unprepared <- struct{}{}
		return fmt.Errorf("election: prepare the store: %w", err)
	}
	close(m.unprepared)
	return nil
}
