//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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
}

// file is the name of a file of the writer: its journal (jsonl), its board, or its log.
func (r Role) file(kind string) string { return filepath.Join(r.Dir, r.Process+"."+kind) }

// resource is the name of the file to which the leaders of a history write, in its directory: lines with an
// election and a term, in the order in which the writes had their effect.
const resource = "resource"

const (
	sampleEvery = time.Millisecond
	workFor     = 25 * time.Millisecond // between Leading and the write, on average
)

// A writer is a process that campaigns, and writes to the resource while it leads.
type writer struct {
	Role
	journal  *os.File
	board    *Board
	joined   []*election.Election
	resource *os.File
}

// Campaign is the main function of a writer. It ends when standard input ends.
func Campaign(text string) error {
	w := &writer{}
	if err := json.Unmarshal([]byte(text), &w.Role); err != nil {
		return err
	}
	var err error
	if w.journal, err = appendTo(w.file("jsonl")); err != nil {
		return err
	}
	if w.board, err = openBoard(w.file("board")); err != nil {
		return err
	}
	if w.resource, err = appendTo(filepath.Join(w.Dir, resource)); err != nil {
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
		e, err := m.Join(name)
		if err != nil {
			return err
		}
		w.joined = append(w.joined, e)
	}
	go w.sample()
	for _, e := range w.joined {
		if err := e.Lead(w.lead); err != nil {
			return err
		}
	}
	io.Copy(io.Discard, os.Stdin)
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.Close(end)
}

// appendTo opens a file at whose end each write has its effect at once.
func appendTo(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// recordCalls wraps the backend to record the calls that change leases.
func (w *writer) recordCalls(b backend.Backend) backend.Backend {
	offset := Now() // before the wire's zero, so that no call is sent earlier than recorded
	wire := conformance.Wrap(b)
	wire.Notify(func(c conformance.Call) {
		if c.Method != "Acquire" && c.Method != "Renew" && c.Method != "Release" {
			return
		}
		from, to := offset+c.Sent, Now()
		for i, name := range c.Elections {
			l := Line{Method: c.Method, Outcome: c.Outcome(i)}
			l.Entry = conformance.Entry{Kind: Called, Election: name, Term: c.Terms[i], From: from, To: to}
			if l.Outcome == backend.Granted && l.Term > 0 {
				l.Kind = conformance.EntryKind(c.Method)
			}
			if c.Err != nil {
				l.Text = c.Err.Error()
			}
			w.note(l)
		}
	})
	return wire
}

// sample records the beliefs for as long as the process lives.
func (w *writer) sample() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	beliefs := make([]belief, len(w.joined))
	for range tick.C {
		for i, e := range w.joined {
			before := Now()
			l := e.Leadership()
			after := Now()
			held := &beliefs[i]
			if held.Term != 0 && (l == nil || l.Term != held.Term) {
				if held.ok() {
					w.note(Line{Entry: held.entry(w.Process, e.Name())})
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
// after it. So a write may be late: a fence would refuse it.
func (w *writer) lead(ctx context.Context, lead *election.Leadership) error {
	work := time.NewTimer(0)
	defer work.Stop()
	for lead.Leading() && ctx.Err() == nil {
		work.Reset(workFor/2 + rand.N(workFor))
		<-work.C

		if _, err := fmt.Fprintln(w.resource, lead.Election(), lead.Term); err != nil {
			return err
		}
	}
	return nil
}
