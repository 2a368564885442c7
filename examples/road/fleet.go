package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/migration"
)

// A fleet holds the processes of one demonstration and all their reports.
type fleet struct {
	options options // of each member
	began   time.Time
	members []*member // without those that were asked to leave; oldest first
	started int

	mu          sync.Mutex
	leaderships map[uint64]map[string]*leadership // by term and member
	latest      uint64                            // the greatest term
}

// A member is one process.
type member struct {
	id    string
	stage migration.Stage
	cmd   *exec.Cmd
	in    io.Closer
	ended chan struct{}

	// Guarded by the fleet's mutex.
	up, leads bool
	term      uint64 // of its latest leadership
	moved     string
	failure   bytes.Buffer
}

func newFleet(o options) *fleet {
	return &fleet{options: o, began: time.Now(), leaderships: map[uint64]map[string]*leadership{}}
}

func (f *fleet) say(format string, args ...any) {
	fmt.Printf("%7.2fs  %s\n", time.Since(f.began).Seconds(), fmt.Sprintf(format, args...))
}

// start starts another member and waits until it takes part.
func (f *fleet) start(ctx context.Context, stage migration.Stage) (*member, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.started++
	m := &member{id: fmt.Sprintf("m%d", f.started), stage: stage, ended: make(chan struct{})}
	o := f.options
	m.cmd = exec.Command(program, "-member", m.id, "-stage", string(stage), "-config", o.config, "-dir", o.dir, fmt.Sprintf("-unsealed=%v", o.unsealed))
	m.cmd.Stderr = &m.failure
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	f.members = append(f.members, m)
	go func() {
		defer close(m.ended)
		lines := json.NewDecoder(out)
		for r := (report{}); lines.Decode(&r) == nil; r = (report{}) {
			f.record(m, r)
		}
		m.cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		m.leads = false
	}()
	return m, f.until(ctx, m.id+" takes part", func() bool { return m.up })
}

// record stores a member's report.
func (f *fleet) record(m *member, r report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.up, m.leads = true, r.Leads
	if r.Moved != "" {
		m.moved = r.Moved
	}
	if r.Leadership == nil {
		return
	}
	m.term = r.Leadership.Term
	if f.leaderships[m.term] == nil {
		f.leaderships[m.term] = map[string]*leadership{}
	}
	if f.leaderships[m.term][m.id] == nil {
		f.say("%s, at stage %q, leads in term %d", m.id, m.stage, m.term)
	}
	f.leaderships[m.term][m.id] = r.Leadership
	f.latest = max(f.latest, m.term)
}

// history returns all leaderships reported so far. The caller holds the mutex, unless all
// members have ended.
func (f *fleet) history() (all []leadership) {
	for _, term := range f.leaderships {
		for _, r := range term {
			all = append(all, *r)
		}
	}
	return all
}

// waitForLeader waits until a member at this stage has led for a moment, and returns it.
func (f *fleet) waitForLeader(ctx context.Context, stage migration.Stage) (leader *member, err error) {
	err = f.until(ctx, fmt.Sprintf("a leader at stage %q", stage), func() bool {
		for _, m := range f.members {
			if m.leads && m.stage == stage && m.term == f.latest {
				r := f.leaderships[m.term][m.id]
				leader = m
				return r.To.Sub(r.From) > 300*time.Millisecond
			}
		}
		return false
	})
	return leader, err
}

// stop ends a member, in order or with kill -9.
func (f *fleet) stop(ctx context.Context, m *member, kill bool) error {
	for i, x := range f.members {
		if x == m {
			f.members = append(f.members[:i:i], f.members[i+1:]...)
		}
	}
	if kill {
		f.say("kill -9 %s", m.id)
		m.cmd.Process.Kill()
	} else {
		f.say("%s is asked to leave", m.id)
		m.in.Close()
	}
	err := f.until(ctx, m.id+" ends", func() bool {
		select {
		case <-m.ended:
			return true
		default:
			return false
		}
	})
	if err == nil && m.failure.Len() > 0 {
		err = fmt.Errorf("%s has failed: %s", m.id, strings.TrimSpace(m.failure.String()))
	}
	return err
}

// until waits until cond returns true; it calls cond with the mutex held. It returns an error
// if that takes too long, or if a member ends that should run.
func (f *fleet) until(ctx context.Context, what string, cond func() bool) error {
	limit := time.After(patience)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		f.mu.Lock()
		done := cond()
		f.mu.Unlock()
		if done {
			return nil
		}
		for _, m := range f.members {
			select {
			case <-m.ended:
				return fmt.Errorf("%s has ended: %s", m.id, strings.TrimSpace(m.failure.String()))
			default:
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			return fmt.Errorf("expected within %v: %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fleet) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the remaining members.
func (f *fleet) end(ctx context.Context) error {
	f.say("all are asked to leave")
	remaining := f.members
	f.members = nil
	for _, m := range remaining {
		m.in.Close()
	}
	for _, m := range remaining {
		select {
		case <-m.ended:
		case <-time.After(patience / 4):
			m.cmd.Process.Kill()
			<-m.ended
		}
	}
	return ctx.Err()
}
