package elect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/client"
)

// observing joins elections with a manager that never campaigns, and calls do until a signal or the limit.
func (a *app) observing(ctx context.Context, limit time.Duration, names []string, log *slog.Logger,
	do func(ctx context.Context, m *election.Manager) error) error {
	ctx, stop := untilSignal(ctx, limit)
	defer stop()
	c, err := a.load()
	if err != nil {
		return err
	}
	c.Election.Logger = cmp.Or(log, c.Election.Logger)
	m, err := openManager(ctx, c, true)
	if err != nil {
		return err
	}
	defer closeWithin(m, time.Second)

	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			return err
		}
	}
	return do(ctx, m)
}

// openManager opens a manager with an id of its own: that of the configuration is another process's.
func openManager(ctx context.Context, c *config.Config, observer bool) (*election.Manager, error) {
	own := *c
	own.Election.ID, own.Election.Observer = "", observer
	return own.Open(ctx)
}

// closeWithin closes a manager. The store may hang.
func closeWithin(m *election.Manager, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return m.Close(ctx)
}

// follow makes an observer join all elections of the store as they appear, and leave those that were
// forgotten, until ctx ends. listed gets the error of each reading of the store's records, or nil.
func (a *app) follow(ctx context.Context, m *election.Manager, listed func(error)) {
	failed := false
	for {
		records, err := unforgotten(m.Records(ctx))
		if ctx.Err() != nil {
			return
		}
		listed(err)
		pause := time.Second
		if err == nil {
			pause = max(10*time.Second, m.Status().TTL)
			joinOnly(ctx, m, records)
		} else if !failed {
			fmt.Fprintln(a.diag, "elect: read the list of elections:", clean.Text(err.Error(), 4096, false))
		}
		failed = err != nil
		if !client.Pause(ctx, pause) {
			return
		}
	}
}

// joinOnly makes m join the elections of records, and leave all others, which were forgotten.
func joinOnly(ctx context.Context, m *election.Manager, records []backend.Record) {
	listed := map[string]bool{}
	for _, r := range records {
		if listed[r.Election] = true; m.Election(r.Election) == nil {
			m.Join(r.Election) // an invalid name was written by another program
		}
	}
	for _, e := range m.Elections() {
		if !listed[e.Name()] {
			e.Leave(ctx)
		}
	}
}
