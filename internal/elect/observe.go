package elect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// An observation is what a command does with a manager that never campaigns, until ctx ends.
type observation func(ctx context.Context, m *election.Manager) error

// observing joins elections and calls do. A signal, or the limit unless that is 0, ends the context of do.
// The id of the configuration is not the manager's own: it belongs to another process.
func (a *app) observing(ctx context.Context, limit time.Duration, names []string, log *slog.Logger, do observation) error {
	ctx, stop := untilSignal(ctx, limit)
	defer stop()
	config, err := a.load()
	if err != nil {
		return err
	}
	o := &config.Election
	o.ID, o.Observer = "", true
	o.Logger = cmp.Or(log, o.Logger)
	m, err := config.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Close(end)
	}()

	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			return err
		}
	}
	return do(ctx, m)
}

// follow makes an observer join all elections of the store as they appear, and leave those that were forgotten, until ctx
// ends. listed gets the error of each reading of the store's records, or nil.
func (a *app) follow(ctx context.Context, m *election.Manager, listed func(error)) {
	lastError := ""
	for {
		records, err := unforgotten(m.Records(ctx))
		if ctx.Err() != nil {
			return
		}
		listed(err)
		pause, text := max(10*time.Second, m.Status().TTL), ""
		if err == nil {
			joinOnly(ctx, m, records)
		} else {
			pause, text = time.Second, err.Error()
		}
		if text != "" && text != lastError {
			fmt.Fprintln(a.diag, "elect: read the list of elections:", clean.Text(text, 4096, false))
		}
		lastError = text
		select {
		case <-time.After(pause):
		case <-ctx.Done():
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
