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

// candidate takes part until ctx ends. Your program needs no more than this, and no
// reports: they are for the demonstration.
func candidate(ctx context.Context, file, id string, send func(report)) error {
	c, err := config.Load(file, config.Options{})
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
		send(report{ID: id, What: sees, Text: ev.String(), Trouble: ev.Err != nil, At: ev.Time})
	})
	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		send(report{ID: id, What: leads, Term: lead.Term, At: time.Now()})
		<-ctx.Done() // your work goes here: it ends with ctx, and its writes carry the term
		return nil
	})
	if err != nil {
		return err
	}
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return m.Close(end)
}

// A report is sent by a candidate to the demonstration.
type report struct {
	ID      string
	What    string // leads, sees or ended
	Term    uint64
	Text    string    // the event, or why the candidate ended
	Trouble bool      // the event has an error of the store
	At      time.Time // comparable: all candidates run on one machine
}

const (
	leads = "leads"
	sees  = "sees"
	ended = "ended"
)

// child is a candidate in its own process.
func child(ctx context.Context, file, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // the input ends with the parent process
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
