package election

import (
	"context"
	"errors"
	"time"

	"github.com/go-election/go-election/backend"
)

// Check asks the store once whether this process may take part: it reads, and, unless it only
// observes, announces itself and has the store check the grants of what it has joined, where
// the store can do that beforehand ([backend.Preflighter]). An error of class backend.ErrDenied
// says what somebody must mend; one of class backend.ErrUnavailable may pass by itself. It
// takes three times CallTimeout at most. The manager works, or tries to, whatever Check says.
func (m *Manager) Check(ctx context.Context) error {
	err := m.callStore(ctx, func(ctx context.Context) error {
		_, err := m.backend.List(ctx, "", 1)
		return err
	})
	if err != nil || m.opts.Observer {
		return err
	}
	if err := m.callStore(ctx, func(ctx context.Context) error { return m.announce(ctx, m.campaigningFor()) }); err != nil {
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

func (m *Manager) campaigningFor() (names string) {
	done := make(chan struct{})
	if m.send(func(time.Duration) input {
		names = backend.ElectionList(m.machine.campaigns)
		close(done)
		return nil
	}) {
		<-done
	}
	return names
}
