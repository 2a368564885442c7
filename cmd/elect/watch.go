package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// An eventLine is one line of "elect watch" in a pipe.
type eventLine struct {
	Time     time.Time       `json:"time"`            // when this process learned of it
	First    bool            `json:"first,omitempty"` // how things are, which may be no change
	Since    *time.Time      `json:"since,omitempty"` // of a first line: by the store's clock, if it knows
	Election string          `json:"election"`
	Kind     string          `json:"kind"` // unknown, vacant, elected or notice
	Leader   string          `json:"leader,omitempty"`
	Address  string          `json:"address,omitempty"`
	Previous string          `json:"previous,omitempty"`
	Term     uint64          `json:"term,omitempty,string"`
	Reason   election.Reason `json:"reason"`
	Error    string          `json:"error,omitempty"`
}

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	var limit time.Duration
	c := &cobra.Command{
		Use: "watch [NAME]", Short: "Follow who leads: a live view, or JSON lines in a pipe", Args: cobra.MaximumNArgs(1),
		Long: `Follow an election, or all of the store. On a terminal it is a view that is kept up to
date; in a pipe, or with --json, each change is a line of JSON. What is found at the start,
or when the store is back, has "first": true, and since when it is so; it is no change.
"unknown" means that the store cannot be reached, so nothing can be said.

Watching needs no right to write, and takes part in nothing.`,
		Example: example(withRun + "elect watch billing --for 2s\nelect watch --json --for 2s" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("--for is %v; it must not be negative", limit)
			}
			out, ok := a.out.(*os.File)
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			context.AfterFunc(ctx, stop) // a second signal ends elect at once
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			return a.watch(ctx, args, !asJSON && ok && isTerminal(out))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON lines, also on a terminal")
	c.Flags().DurationVar(&limit, "for", 0, "end after so long (default: when interrupted)")
	return c
}

// A view is what is known of all elections that are watched.
type view struct {
	mu     sync.Mutex
	now    map[string]election.Event
	recent []election.Event // changes, newest last
	read   map[string]backend.Record
}

func (a *app) watch(ctx context.Context, names []string, live bool) error {
	conf, err := a.load()
	if err != nil {
		return err
	}
	conf.Election.ID, conf.Election.Observer = "", true // two processes never share an id
	m, err := conf.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Close(end)
	}()
	v := &view{now: map[string]election.Event{}, read: map[string]backend.Record{}}
	m.Watch(func(ev election.Event) {
		if !live {
			a.json(v.line(ev))
			return
		}
		v.add(ev)
	})
	find := func() error { // elections that are new, and since when things are as they are
		s, err := openStore(ctx, conf) // what was read, though the file may have changed
		if err != nil {
			return err
		}
		defer s.Close()
		var records []backend.Record
		if len(names) == 0 {
			records, err = s.records(ctx)
		}
		for _, name := range names {
			if r, err := s.record(ctx, name); err == nil { // what fails is told by an event
				records = append(records, r)
			}
		}
		v.learn(records)
		if len(names) == 0 && err == nil {
			s.join(ctx, m, records)
		}
		return err
	}
	if err := find(); err != nil && ctx.Err() == nil {
		return err
	}
	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			return err
		}
	}
	draw, look := time.NewTicker(200*time.Millisecond), time.NewTicker(max(10*time.Second, conf.Election.TTL))
	defer draw.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			find() // the view says when the store cannot be reached
		case <-draw.C:
			if live {
				show(a.out, v.text(conf.Backend))
			}
		}
	}
}

// learn takes in what the store has.
func (v *view) learn(records []backend.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range records {
		v.read[r.Election] = r
	}
}

// since is since when things are as an event says: the store's word, where the process
// has only found them so. It is called with v.mu held.
func (v *view) since(ev election.Event) (t time.Time, byStore bool) {
	r := v.read[ev.Election]
	vacant := r.Vacant() || r.Lapsed() > 0
	if t = r.Since(); ev.First && !t.IsZero() && r.Term == ev.Term && vacant == (ev.Kind == election.Vacant) && ev.Kind != election.Unknown {
		return t, true
	}
	return ev.Time, false
}

// line is what "elect watch" writes into a pipe.
func (v *view) line(ev election.Event) eventLine {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := eventLine{
		Time: ev.Time, First: ev.First, Election: ev.Election, Kind: ev.Kind.String(), Leader: ev.Leader.ID, Address: ev.Leader.Address,
		Previous: ev.Previous.ID, Term: ev.Term, Reason: ev.Reason,
	}
	if t, byStore := v.since(ev); byStore {
		line.Since = &t
	}
	if ev.Err != nil {
		line.Error = ev.Err.Error()
	}
	return line
}

func (v *view) add(ev election.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ev.Kind != election.Notice {
		v.now[ev.Election] = ev
	}
	if ev.First {
		return
	}
	if v.recent = append(v.recent, ev); len(v.recent) > 10 {
		v.recent = v.recent[1:]
	}
}

func (v *view) text(backend string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "elections on %s, %s; end with Ctrl-C\n\n", backend, time.Now().Format(time.TimeOnly))
	var w table
	w.row("ELECTION", "LEADER", "TERM", "SINCE", "WHY")
	var names []string
	for name, ev := range v.now {
		if ev.Reason != election.ReasonForgotten {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		ev := v.now[name]
		who := map[election.Kind]string{election.Unknown: "? (the store cannot be reached)", election.Vacant: "-", election.Elected: ev.Leader.ID}[ev.Kind]
		since, _ := v.since(ev)
		w.row(name, who, ev.Term, time.Since(since).Round(time.Second), ev.Reason)
	}
	fmt.Fprintf(&b, "%v\nchanges\n", w)
	for _, ev := range slices.Backward(v.recent) {
		fmt.Fprintf(&b, "  %s  %s\n", ev.Time.Format(time.TimeOnly), ev)
	}
	return b.String()
}
