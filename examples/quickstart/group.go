package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A group holds the candidates of one demonstration.
type group struct {
	file    string
	reports chan report
	members []*member
	seen    map[string]string // the last event of each candidate
	trouble string            // the last error printed
}

type member struct {
	id        string
	kill      func()
	terminate func()
	ending    bool          // it was killed or asked to end: its reports are outdated
	done      chan struct{} // closed when it has ended
}

// startProcess starts this program again, as a candidate.
func (g *group) startProcess(ctx context.Context, id string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "-config", g.file, "-candidate", id)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	in, err := cmd.StdinPipe() // it closes when this process ends, and then the child ends
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{id: id, done: make(chan struct{})}
	m.kill = func() { cmd.Process.Kill() }
	m.terminate = func() {
		if cmd.Process.Signal(syscall.SIGTERM) != nil { // not on Windows
			in.Close()
		}
	}
	g.members = append(g.members, m)
	go func() {
		defer close(m.done)
		lines := json.NewDecoder(out)
		for r := (report{}); lines.Decode(&r) == nil; r = (report{}) {
			g.reports <- r
		}
		cmd.Wait()
		if failure.Len() > 0 {
			g.reports <- report{ID: id, What: ended, Text: strings.TrimSpace(failure.String())}
		}
	}()
	return nil
}

// startManager starts a candidate in this process. It cannot be killed.
func (g *group) startManager(ctx context.Context, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	m := &member{id: id, kill: cancel, terminate: cancel, done: make(chan struct{})}
	g.members = append(g.members, m)
	go func() {
		defer close(m.done)
		if err := candidate(ctx, g.file, id, func(r report) { g.reports <- r }); err != nil {
			g.reports <- report{ID: id, What: ended, Text: err.Error()}
		}
	}()
	return nil
}

// leader waits until a candidate leads.
func (g *group) leader(ctx context.Context, limit time.Duration) (report, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	var hint <-chan time.Time
	if g.seen == nil { // nobody has led yet
		g.seen = make(map[string]string)
		hint = time.After(4 * time.Second)
	}
	for {
		select {
		case <-hint:
			say("nobody leads yet; is the store there? %s says where it should be", g.file)
		case r := <-g.reports:
			ending := false
			g.each(r.ID, func(m *member) { ending = m.ending })
			switch {
			case ending && r.What != sees:
			case r.What == leads:
				return r, nil
			case r.What == ended:
				return r, fmt.Errorf("%s has ended: %s", r.ID, r.Text)
			case r.Trouble && r.Text != g.trouble: // print it once, not for each of the three
				g.trouble = r.Text
				say("%s says: %s", r.ID, r.Text)
			}
			g.seen[r.ID] = r.Text
		case <-timeout.C:
			return report{}, fmt.Errorf("nobody leads after %v; last events of the candidates: %q", limit, g.seen)
		case <-ctx.Done():
			return report{}, ctx.Err()
		}
	}
}

func (g *group) kill(id string)      { g.each(id, func(m *member) { m.ending = true; m.kill(); <-m.done }) }
func (g *group) terminate(id string) { g.each(id, func(m *member) { m.ending = true; m.terminate() }) }

func (g *group) each(id string, f func(*member)) {
	for _, m := range g.members {
		if m.id == id {
			f(m)
		}
	}
}

// end ends the remaining candidates in order.
func (g *group) end() {
	go func() { // drain the reports, so that no sender blocks
		for range g.reports {
		}
	}()
	for _, m := range g.members {
		m.terminate()
	}
	for _, m := range g.members {
		select {
		case <-m.done:
		case <-time.After(10 * time.Second):
			m.kill()
		}
	}
}
