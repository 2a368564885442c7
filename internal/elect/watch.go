package elect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// An eventLine is one line of JSON of "elect watch".
type eventLine struct {
	Time     time.Time       `json:"time"`            // when this process observed it
	First    bool            `json:"first,omitempty"` // the first state that this process observed, which may be no change
	Since    *time.Time      `json:"since,omitempty"` // of a First line, if the store knows: when the state began, by its clock
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
		Use: "watch [NAME]", Short: "Follow who leads: a line for each change, in JSON in a pipe", Args: cobra.MaximumNArgs(1),
		Long: `Follow one election, or all elections of the store: elect watch writes the states at the start, and
then each change. In a pipe, or with --json, each line is JSON. The state at the start, and the state
when the store can be reached again, have "first": true, because they may be no change; "since"
says when the state began. "unknown" means that the store cannot be reached.

Watching needs no right to write, and never campaigns.`,
		Example: example(withRun + "elect watch billing --for 2s\nelect watch --json --for 2s" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := untilSignal(c.Context(), limit)
			defer stop()
			out, ok := a.out.(*os.File)
			return a.watch(ctx, args, asJSON || !ok || !isTerminal(out))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON lines, even on a terminal")
	c.Flags().DurationVar(&limit, "for", 0, "end after this time (default: run until interrupted)")
	return c
}

// watch writes a line for each event until ctx ends.
func (a *app) watch(ctx context.Context, names []string, asJSON bool) error {
	m, err := a.observe(ctx, names, nil)
	if err != nil {
		return err
	}
	defer closeObserver(m)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	l := &listing{manager: m, all: len(names) == 0}
	m.Watch(func(ev election.Event) { // begins with the present states
		if ev.Kind == election.Unknown && ev.Reason == election.ReasonCurrent && ev.Err == nil {
			return // the store has not been read yet
		}
		line := lineOf(ev, l.record(ctx, ev))
		if asJSON {
			a.json(line)
			return
		}
		at := line.Time
		if line.Since != nil {
			at = *line.Since
		}
		fmt.Fprintf(a.out, "%s  %s\n", at.Local().Format(time.DateTime), clean.Text(ev.String(), 1024, false))
	})
	failed := make(chan error, 1)
	if l.all {
		known := false
		go a.follow(ctx, m, func(records []backend.Record, err error) {
			if err == nil {
				known = true
				l.set(records)
			} else if !known && !errors.Is(err, backend.ErrUnavailable) {
				failed <- err // to wait for it does not help
			}
		})
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// A listing is what was last read of all elections.
type listing struct {
	manager *election.Manager
	all     bool // follow fills records

	mu      sync.Mutex
	records map[string]backend.Record
}

func (l *listing) set(records []backend.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = map[string]backend.Record{}
	for _, r := range records {
		l.records[r.Election] = r
	}
}

// record returns the record for an event that needs one. It reads the store only for elections that the user has named.
func (l *listing) record(ctx context.Context, ev election.Event) (r backend.Record) {
	if !l.all && ev.First {
		r, _ = l.manager.Election(ev.Election).Record(ctx) // an event tells the error
		return r
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[ev.Election]
}

// lineOf returns an event as JSON shows it. r is the record of the election, or empty if it is not known.
func lineOf(ev election.Event, r backend.Record) eventLine {
	line := eventLine{
		Time: ev.Time, First: ev.First, Election: ev.Election, Kind: ev.Kind.String(), Leader: ev.Leader.ID, Address: ev.Leader.Address,
		Previous: ev.Previous.ID, Term: ev.Term, Reason: ev.Reason,
	}
	kind := election.Elected
	if r.Vacant() || r.ExpiredFor() > 0 {
		kind = election.Vacant
	}
	if t := r.Since(); ev.First && !t.IsZero() && r.Term == ev.Term && kind == ev.Kind {
		line.Since = &t
	}
	if ev.Err != nil {
		line.Error = ev.Err.Error()
	}
	return line
}
