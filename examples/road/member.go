package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// options hold a member's identity and its stores.
type options struct {
	id       string
	stage    migration.Stage
	config   string // a configuration file; "": two directories in dir
	dir      string
	unsealed bool
}

// open starts the manager of a member. No other code of a member depends on the migration.
func (o options) open(ctx context.Context) (*election.Manager, error) {
	if o.config != "" {
		environ := append(os.Environ(), "ELECTION_MIGRATION_STAGE="+string(o.stage))
		if o.unsealed && o.stage == migration.To {
			environ = append(environ, "ELECTION_MIGRATION_UNSEALED=true")
		}
		c, err := config.Load(o.config, config.Options{Environ: environ})
		if err != nil {
			return nil, err
		}
		c.Election.ID = o.id
		return c.Open(ctx)
	}
	from, err := file.Open(file.Options{Dir: filepath.Join(o.dir, "old")})
	if err != nil {
		return nil, err
	}
	store := backend.Backend(from)
	if o.stage != migration.From { // a member at "from" needs no package migration
		to, err := file.Open(file.Options{Dir: filepath.Join(o.dir, "new")})
		if err != nil {
			return nil, errors.Join(err, from.Close())
		}
		store, err = migration.New(migration.Options{
			From: from, FromName: "old", // both stores are of one kind, so they need names
			To: to, ToName: "new",
			Stage: o.stage, Unsealed: o.unsealed && o.stage == migration.To,
		})
		if err != nil {
			return nil, errors.Join(err, from.Close(), to.Close())
		}
	}
	m, err := election.New(store, election.Options{ID: o.id})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, nil
}

// A report is sent by a member to its parent.
type report struct {
	Leadership *leadership // until now
	Leads      bool        // the leadership continues
	Moved      string      // the event that says where the election has moved
}

// A leadership is an interval in which a member believed that it led: at From, at To, and
// without an interruption in between.
type leadership struct {
	ID       string
	Stage    migration.Stage
	Term     uint64
	From, To time.Time
}

// child is a member in its own process. It leaves when its input ends: its parent has closed
// it, or has died.
func child(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	m, err := o.open(ctx)
	if err != nil {
		return err
	}
	e, err := m.Join("demo")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	send := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		out.Encode(r)
	}
	e.Watch(func(ev election.Event) {
		if ev.Kind == election.Vacant && ev.Err != nil {
			send(report{Moved: ev.String()})
		}
	})
	if err := e.Lead(nil); err != nil {
		return err
	}
	send(report{})
	reportLeadership(ctx, e, o, send)
	end, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	return m.Close(end)
}

// reportLeadership asks the election every few milliseconds whether this process leads, and
// reports the answer. It reads the clock before and after each question and reports the shorter
// interval, so that the process believed all that is reported.
func reportLeadership(ctx context.Context, e *election.Election, o options, send func(report)) {
	var now *leadership
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		before := time.Now()
		lead := e.Leadership()
		after := time.Now()
		switch {
		case lead == nil && now != nil:
			send(report{Leadership: now})
			now = nil
		case lead == nil:
		case now == nil || now.Term != lead.Term:
			now = &leadership{o.id, o.stage, lead.Term, after, after}
			send(report{Leadership: now, Leads: true})
		default: // the same leadership, uninterrupted: a lost term does not come back
			if before.After(now.To) {
				now.To = before
			}
			send(report{Leadership: now, Leads: true})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
