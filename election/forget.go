package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Forget retires an election that is not needed any more: stores keep its last term, so that
// terms grow should somebody take it up again, and "elect" and the status page leave it out
// ([backend.Record.Forgotten]). Stop its candidates first: any that still campaigns leads it
// again, and then it is not forgotten.
//
// Only a leader can say that nobody leads. So this process campaigns, for as long as the lease
// of a leader that has failed takes to run out, and steps down at once; it has left the election
// when Forget returns. It is an error if somebody else leads, which ends nothing, or if
// this process campaigns and does not lead. With an error of ctx, or [ErrNotReleased], the
// election may be vacant and not forgotten: try again.
func (m *Manager) Forget(ctx context.Context, name string) error {
	fail := func(err error) error { return fmt.Errorf("election: forget %q: %w", name, err) }
	e := m.Election(name)
	if e != nil && e.Leadership() == nil {
		return fail(fmt.Errorf("%w: this process has joined it and does not lead", backend.ErrInvalid))
	}
	if e == nil {
		var err error
		if e, err = m.Join(name); err != nil {
			return fail(err)
		}
		if err := e.leadVacant(ctx); err != nil {
			return fail(errors.Join(err, e.Leave(context.WithoutCancel(ctx))))
		}
	}
	if err := e.leave(ctx, backend.Forgotten); err != nil {
		return fail(err)
	}
	return nil
}

// leadVacant campaigns for what nobody leads, as far as the store knows.
func (e *Election) leadVacant(ctx context.Context) error {
	r, err := e.Record(ctx)
	if err != nil {
		return err
	}
	if !r.Vacant() && r.Lapsed() == 0 {
		return fmt.Errorf("%w: %q leads", backend.ErrInvalid, r.Holder.ID)
	}
	_, err = e.Campaign(ctx)
	return err
}
