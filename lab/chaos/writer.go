//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// RoleVariable is the environment variable that makes the test binary a writer.
const RoleVariable = "CHAOS_ROLE"

// A Role describes a writer.
type Role struct {
	Process   string   // its name in the history
	ID        string   // of the candidate
	Dir       string   // of its journal and its board
	Environ   []string // the configuration: ELECTION_BACKEND=… and so on
	Elections []string
	Resource  string // the socket of the resource
}

func (r Role) journal() string { return filepath.Join(r.Dir, r.Process+".jsonl") }
func (r Role) board() string   { return filepath.Join(r.Dir, r.Process+".board") }

const (
	sampleEvery = time.Millisecond
	workFor     = 25 * time.Millisecond // between Leading and the write, on average
)

// A writer is a process that campaigns, and writes to the resource while it leads.
type writer struct {
	Role
	*journal
	board      *Board
	candidates []*candidate
	writes     atomic.Int64
}

// A candidate is a writer's part in one election.
type candidate struct {
	*election.Election
	writer *writer
}

// Campaign is the main function of a writer. It ends when standard input ends, or by SIGTERM.
func Campaign(text string) error {
	w := &writer{}
	if err := json.Unmarshal([]byte(text), &w.Role); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if w.journal, err = openJournal(w.Role.journal(), w.Process); err != nil {
		return err
	}
	if w.board, err = openBoard(w.Role.board()); err != nil {
		return err
	}
	w.note(Line{Entry: conformance.Entry{Kind: Started, From: Now(), To: Now()}})
	c, err := config.Parse("", nil, config.Options{Environ: w.Environ})
	if err != nil {
		return err
	}
	b, err := c.OpenBackend()
	if err != nil {
		return err
	}
	c.Election.ID = w.ID
	if c.Guard {
		if c.Election.Guard, err = c.StartGuard(); err != nil {
			return err
		}
	}
	m, err := election.New(w.recordCalls(b), c.Election)
	if err != nil {
		return err
	}
	for _, name := range w.Elections {
		if err := w.join(m, name); err != nil {
			return err
		}
	}
	go w.sample()
	for _, s := range w.candidates {
		if err := s.Lead(s.lead); err != nil {
			return err
		}
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the harness has ended
	}()
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.Close(end)
}

// recordCalls wraps the backend to record all calls.
func (w *writer) recordCalls(b backend.Backend) backend.Backend {
	offset := Now() // before the wire's zero, so that no call is sent earlier than recorded
	wire := conformance.Wrap(b)
	wire.Notify(func(c conformance.Call) {
		from, to := offset+c.Sent, Now()
		for _, l := range c.Granted {
			w.note(Line{Entry: conformance.Entry{Kind: conformance.Granted, Election: l.Election, Term: l.Term, From: from, To: to}})
		}
		names := c.Elections
		if len(names) == 0 {
			names = []string{""}
		}
		for i, name := range names {
			l := Line{Entry: conformance.Entry{Kind: Called, Election: name, From: from, To: to}, Method: c.Method, Outcome: outcome(c, i)}
			if i < len(c.Terms) {
				l.Term = c.Terms[i]
			}
			for _, g := range c.Granted {
				if g.Election == name {
					l.Term = g.Term
				}
			}
			if c.Err != nil {
				l.Text = c.Err.Error()
			}
			w.note(l)
		}
	})
	return wire
}

// outcome returns how item i of a call ended.
func outcome(c conformance.Call, i int) string {
	switch {
	case i < len(c.Outcomes) && c.Outcomes[i] == backend.Granted:
		return ok
	case i < len(c.Outcomes) && c.Outcomes[i] == backend.Refused:
		return fail
	case c.Method == "Acquire" || c.Method == "Renew" || c.Err != nil:
		return unknown
	}
	return ok
}

// join joins an election and records its events.
func (w *writer) join(m *election.Manager, name string) error {
	e, err := m.Join(name)
	if err != nil {
		return err
	}
	w.candidates = append(w.candidates, &candidate{e, w})
	e.Watch(func(ev election.Event) {
		at := Now()
		l := Line{Entry: conformance.Entry{Kind: conformance.Told, Election: name, Term: ev.Term, From: at, To: at, Watcher: 1,
			State: ev.Kind, Leader: string(ev.Leader.Nonce), Leading: ev.Leading, Reason: ev.Reason, Coalesced: ev.Coalesced}}
		if ev.Err != nil {
			l.Text = ev.Err.Error()
		}
		w.note(l)
	})
	return nil
}

// sample records the beliefs for as long as the process lives.
func (w *writer) sample() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	beliefs := make([]belief, len(w.candidates))
	for range tick.C {
		for i, s := range w.candidates {
			before := Now()
			l := s.Leadership()
			after := Now()
			held := &beliefs[i]
			if held.Term != 0 && (l == nil || l.Term != held.Term) {
				if held.ok() {
					w.note(Line{Entry: conformance.Entry{Kind: conformance.Believed, Election: s.Name(), Term: held.Term, From: held.From, To: held.To}})
				}
				*held = belief{}
				w.board.show(i, *held)
			}
			switch {
			case l == nil:
				continue
			case held.Term == 0:
				*held = belief{Term: l.Term, From: after}
			default:
				held.To = before
			}
			w.board.show(i, *held)
		}
	}
}

// lead writes while it leads. Like most programs, it calls Leading before the work and not
// after it. So a write may be late, and then the fence must refuse it.
func (s *candidate) lead(ctx context.Context, lead *election.Leadership) error {
	w, began := s.writer, Now()
	w.note(Line{Entry: conformance.Entry{Kind: Running, Election: s.Name(), Term: lead.Term, From: began, To: began}})
	defer func() {
		w.note(Line{Entry: conformance.Entry{Kind: conformance.Ran, Election: s.Name(), Term: lead.Term, From: began, To: Now()}})
	}()
	var c *rpc.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	work := time.NewTimer(0)
	defer work.Stop()
	for lead.Leading() && ctx.Err() == nil {
		work.Reset(workFor/2 + rand.N(workFor))
		<-work.C
		l := Line{Entry: conformance.Entry{Kind: Wrote, Election: s.Name(), Term: lead.Term, From: Now()}, Number: int(w.writes.Add(1))}
		var accepted bool
		var err error
		if c == nil {
			c, err = rpc.Dial("unix", w.Resource)
		}
		if err == nil {
			err = c.Call("Resource.Write", Write{Process: w.Process, Election: s.Name(), Term: lead.Term, Number: l.Number}, &accepted)
		}
		switch l.To = Now(); {
		case err != nil:
			l.Outcome, l.Text = unknown, err.Error()
			c = nil
		case accepted:
			l.Outcome = ok
		default:
			l.Outcome = refused
		}
		w.note(l)
	}
	return nil
}
