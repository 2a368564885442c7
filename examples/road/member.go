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

// options say who a member is, and by which stores it elects.
type options struct {
	id       string
	stage    migration.Stage
	config   string // a file; "": two directories in dir
	dir      string
	unsealed bool
}

// open starts the manager of a member. Only this knows of the road.
func (o options) open(ctx context.Context) (*election.Manager, error) {
	if o.config != "" {
		environ := append(os.Environ(), "ELECTION_MIGRATION_STAGE="+string(o.stage))
		if o.unsealed && o.stage == migration.To {
			environ = append(environ, "ELECTION_MIGRATION_UNSEALED=true")
		}
		c, err := config.Load(o.config, &config.Options{Environ: environ})
		if err != nil {
			return nil, err
		}
		c.Election.ID = o.id
		return c.Open(ctx)
	}
	from, err := file.Open(ctx, file.Options{Dir: filepath.Join(o.dir, "old")})
	if err != nil {
		return nil, err
	}
	store := backend.Backend(from)
	if o.stage != migration.From { // who is there needs to know nothing of the road
		to, err := file.Open(ctx, file.Options{Dir: filepath.Join(o.dir, "new")})
		if err != nil {
			return nil, errors.Join(err, from.Close())
		}
		store, err = migration.New(migration.Options{
			From: from, FromName: "old", // both are of one kind: their names tell them apart
			To: to, ToName: "new",
			Stage: o.stage, Unsealed: o.unsealed && o.stage == migration.To,
		})
		if err != nil {
			return nil, errors.Join(err, from.Close(), to.Close())
		}
	}
	m, err := election.New(store, &election.Options{ID: o.id})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, nil
}

// A report is what a member tells its parent.
type report struct {
	Leadership *leadership // as far as it has come
	Leads      bool        // it does so still
	Moved      string      // nobody may lead there, and why
}

// A leadership is a time during which a member was seen to believe that it leads: at From, at
// To, and without an interruption between.
type leadership struct {
	ID       string
	Stage    migration.Stage
	Term     uint64
	From, To time.Time
}

// child is a member in a process of its own, until its input ends: that is how its
// parent asks it to leave, and what happens when the parent dies.
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
	tell := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		out.Encode(r)
	}
	e.Watch(func(ev election.Event) {
		if ev.Kind == election.Vacant && ev.Err != nil {
			tell(report{Moved: ev.String()})
		}
	})
	if err := e.Lead(nil); err != nil {
		return err
	}
	tell(report{})
	confess(ctx, e, o, tell)
	end, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	return m.Close(end)
}

// confess asks the election all the time whether this process leads, and tells what it
// says. The clock is read on the safe side of each answer: what is told was believed.
func confess(ctx context.Context, e *election.Election, o options, tell func(report)) {
	var now *leadership
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		before := time.Now()
		lead := e.Leadership()
		after := time.Now()
		switch {
		case lead == nil && now != nil:
			tell(report{Leadership: now})
			now = nil
		case lead == nil:
		case now == nil || now.Term != lead.Term:
			now = &leadership{o.id, o.stage, lead.Term, after, after}
			tell(report{Leadership: now, Leads: true})
		default: // the term of a leadership that was lost does not come back
			if before.After(now.To) {
				now.To = before
			}
			tell(report{Leadership: now, Leads: true})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
