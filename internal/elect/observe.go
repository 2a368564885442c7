package elect

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// observe returns a manager that joins elections and never campaigns. The id of the configuration is not its own: it
// belongs to another process.
func (a *app) observe(ctx context.Context, names []string, log *slog.Logger) (*election.Manager, error) {
	config, err := a.load()
	if err != nil {
		return nil, err
	}
	o := &config.Election
	o.ID, o.Observer = "", true
	if log != nil {
		o.Logger = log
	}
	m, err := config.Open(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			closeObserver(m)
			return nil, err
		}
	}
	return m, nil
}

func closeObserver(m *election.Manager) {
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m.Close(end)
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
