package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// candidate takes part until ctx ends. This is all that a program of yours needs;
// that it reports to somebody is for the demonstration.
func candidate(ctx context.Context, file, id string, tell func(report)) error {
	c, err := config.Load(file, nil)
	if err != nil {
		return err
	}
	c.Election.ID = id
	m, err := c.Open(ctx)
	if err != nil {
		return err
	}
	e, err := m.Join("demo")
	if err != nil {
		return err
	}
	e.Watch(func(ev election.Event) { // every change of leader, on every node
		tell(report{ID: id, What: sees, Text: ev.String(), Trouble: ev.Err != nil, At: ev.Time})
	})
	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		tell(report{ID: id, What: leads, Term: lead.Term, At: time.Now()})
		<-ctx.Done() // here it would work, as long as ctx lasts, and hand the term to what it writes
		return nil
	})
	if err != nil {
		return err
	}
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return m.Close(end)
}

// A report is what a candidate tells the demonstration.
type report struct {
	ID      string
	What    string // leads, sees or ended
	Term    uint64
	Text    string    // what it sees, or why it ended
	Trouble bool      // the store does not do what it should
	At      time.Time // one machine, one clock
}

const (
	leads = "leads"
	sees  = "sees"
	ended = "ended"
)

// child is a candidate in a process of its own.
func child(ctx context.Context, file, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // end with the parent
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	return candidate(ctx, file, id, func(r report) {
		mu.Lock()
		defer mu.Unlock()
		out.Encode(r)
	})
}
