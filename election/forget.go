package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Forget retires an election that is no longer needed. The store keeps its last term, so that terms still
// grow if the election is used again; "elect" and the status page no longer show it
// ([backend.Record.Forgotten]). Stop its candidates first: one that still campaigns leads again and so undoes
// Forget.
//
// Only a leader can retire an election. So this process joins, campaigns, steps down at once and leaves. If
// the last leader failed, that takes until its lease has expired. Forget fails with backend.ErrInvalid, and
// changes nothing, if another process leads, or if this process has joined the election and does not lead.
// After an error of ctx or [ErrNotReleased] the election may be vacant and not forgotten: try again.
func (m *Manager) Forget(ctx context.Context, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("election: forget %q: %w", name, err)
		}
	}()
	e := m.Election(name)
	switch {
	case e == nil:
		if e, err = m.Join(name); err != nil {
			return err
		}
		if err := e.leadVacant(ctx); err != nil {
			return errors.Join(err, e.Leave(context.WithoutCancel(ctx)))
		}
	case !e.Leading():
		return fmt.Errorf("%w: this process has joined it and does not lead", backend.ErrInvalid)
	}
	return e.leave(ctx, backend.Forgotten)
}

// leadVacant campaigns for the election if the store shows no live leader.
func (e *Election) leadVacant(ctx context.Context) error {
	r, err := e.Record(ctx)
	if err != nil {
		return err
	}
	if !r.Vacant() && r.ExpiredFor() == 0 {
		return fmt.Errorf("%w: %q leads", backend.ErrInvalid, r.Holder.ID)
	}
	_, err = e.Campaign(ctx)
	return err
}
