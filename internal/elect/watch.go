package elect

import (
	"context"
	"errors"
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
		Use: "watch [NAME]", Short: "Follow who leads: a live view on a terminal, JSON lines in a pipe", Args: cobra.MaximumNArgs(1),
		Long: `Follow one election, or all elections of the store. On a terminal elect watch shows a live
view. In a pipe, or with --json, it writes each change as a line of JSON. The state at the
start, and the state when the store can be reached again, have "first": true, because
they may be no change; "since" says when the state began. "unknown" means that the
store cannot be reached.

Watching needs no right to write, and never campaigns.`,
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
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON lines, even on a terminal")
	c.Flags().DurationVar(&limit, "for", 0, "end after this time (default: run until interrupted)")
	return c
}

// A view is the state of all elections that are watched.
type view struct {
	mu      sync.Mutex
	current map[string]election.Event
	recent  []election.Event          // changes, newest last
	records map[string]backend.Record // as read from the store
}

func (a *app) watch(ctx context.Context, names []string, live bool) error {
	config, err := a.load()
	if err != nil {
		return err
	}
	config.Election.ID, config.Election.Observer = "", true // the id belongs to another process
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
	v := &view{current: map[string]election.Event{}, records: map[string]backend.Record{}}
	err = v.refresh(ctx, m, len(names) == 0)
	for errors.Is(err, backend.ErrUnavailable) && ctx.Err() == nil { // the names of elections are not known yet
		fmt.Fprintf(a.diag, "elect: the store does not answer yet: %s\n", clean.Text(err.Error(), 1024, false))
		err = v.awaitStore(ctx, m)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	m.Watch(func(ev election.Event) { // begins with the present states
		if !live {
			a.json(v.line(ev))
			return
		}
		v.add(ev)
	})
	draw, refresh := time.NewTicker(200*time.Millisecond), time.NewTicker(max(10*time.Second, m.Status().TTL))
	defer draw.Stop()
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
			v.refresh(ctx, m, len(names) == 0) // events say when the store cannot be reached
		case <-draw.C:
			if live {
				show(a.out, v.text(config.Backend))
			}
		}
	}
}

// awaitStore tries to read the records of all elections until the store answers, or for a minute.
func (v *view) awaitStore(ctx context.Context, m *election.Manager) (err error) {
	for range 30 {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return nil
		}
		if err = v.refresh(ctx, m, true); !errors.Is(err, backend.ErrUnavailable) {
			return err
		}
	}
	return err
}

// refresh reads the records of the elections: of all in the store, whose new ones it joins, or of
// those that are joined.
func (v *view) refresh(ctx context.Context, m *election.Manager, all bool) error {
	if all {
		records, err := unforgotten(m.Records(ctx))
		v.setRecords(records)
		if err == nil {
			joinOnly(ctx, m, records)
		}
		return err
	}
	for _, e := range m.Elections() {
		if r, err := e.Record(ctx); err == nil { // an event tells the error
			v.setRecords([]backend.Record{r})
		}
	}
	return nil
}

func (v *view) setRecords(records []backend.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range records {
		v.records[r.Election] = r
	}
}

// since returns when the state of an event began: by the store if the event is the first that
// this process observed, else by the event. The caller holds v.mu.
func (v *view) since(ev election.Event) (t time.Time, byStore bool) {
	r := v.records[ev.Election]
	vacant := r.Vacant() || r.ExpiredFor() > 0
	if t = r.Since(); ev.First && !t.IsZero() && r.Term == ev.Term && vacant == (ev.Kind == election.Vacant) && ev.Kind != election.Unknown {
		return t, true
	}
	return ev.Time, false
}

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
		v.current[ev.Election] = ev
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
	for name, ev := range v.current {
		if ev.Reason != election.ReasonForgotten {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		ev := v.current[name]
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
