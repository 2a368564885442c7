package election

import (
	"context"
	"errors"
	"time"

	"github.com/go-election/go-election/backend"
)

// Check asks the store once whether this process may take part. It reads a record. Unless the
// manager only observes, it also announces this process, and asks a [backend.Preflighter] whether
// bids for the joined elections would be allowed. It takes three times CallTimeout at most. After
// an error of class backend.ErrDenied an operator must correct something; backend.ErrUnavailable
// may pass by itself. The manager continues to work in either case.
func (m *Manager) Check(ctx context.Context) error {
	err := m.callStore(ctx, func(ctx context.Context) error {
		if err := m.prepare(ctx); err != nil {
			return err
		}
		_, err := m.backend.List(ctx, "", 1)
		return err
	})
	if err != nil || m.opts.Observer {
		return err
	}
	var campaigns string
	m.ask(func(time.Duration) (input, error) {
		campaigns = m.machine.announcement()
		return nil, nil
	})
	if err := m.callStore(ctx, func(ctx context.Context) error { return m.announce(ctx, campaigns) }); err != nil {
		return err
	}
	var bids []backend.Bid
	for _, e := range m.Elections() {
		bids = append(bids, backend.Bid{Election: e.Name(), Candidate: m.me, TTL: m.opts.TTL, Renew: m.opts.RenewEvery})
	}
	p, ok := m.backend.(backend.Preflighter)
	if !ok || len(bids) == 0 {
		return nil
	}
	return m.callStore(ctx, func(ctx context.Context) error { return errors.Join(p.Preflight(ctx, bids)...) })
}
