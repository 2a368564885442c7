package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/internal/testbed"
)

// A fleet is a few "elect run" whose commands write one history. They ignore
// SIGTERM, and each has a child that has left its process group.
type fleet struct {
	t       *testing.T
	env     []string
	history string
	members []*member
	seen    uint64 // the newest term
}

func newFleet(t *testing.T, env []string) *fleet {
	f := &fleet{t: t, history: filepath.Join(testbed.TempDir(t), "history")}
	f.env = append(env, historyFile+"="+f.history)
	f.fill()
	return f
}

// fill starts members in place of those that have ended.
func (f *fleet) fill() {
	alive := f.members[:0]
	for _, m := range f.members {
		if !m.over() {
			alive = append(alive, m)
		}
	}
	for f.members = alive; len(f.members) < 3; {
		f.members = append(f.members, start(f.t, f.env, "run", "job", "--stop-timeout", "200ms", "--grace", testGrace.String(), "--reserve", testReserve.String(), "--", os.Args[0]))
	}
}

// leader waits for a term that was not there before, and returns its member and the
// process of its command.
func (f *fleet) leader() (m *member, command int) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, "a new term", func() error {
		for _, b := range readHistory(f.t, f.history) {
			for _, x := range f.members {
				if b.term > f.seen && x.below()["elect-guard"] > 0 {
					for _, p := range descendants(x.Process.Pid) {
						if p.pid == b.pid {
							f.seen, m, command = b.term, x, b.pid
							return nil
						}
					}
				}
			}
		}
		return fmt.Errorf("the last is %d", f.seen)
	})
	return m, command
}

// lastHeartbeat is when anybody was alive last.
func (f *fleet) lastHeartbeat() (last time.Duration) {
	for _, b := range readHistory(f.t, f.history) {
		last = max(last, b.at)
	}
	return last
}

// How late a guard may get to run, on a busy machine, is testReserve; how late a renewal
// may be, what the TTL leaves over.
const (
	testTTL     = 8 * time.Second
	testReserve = 2 * time.Second
	testGrace   = 500 * time.Millisecond
)

// signalTo sends a signal to a process below m, if it is there: m may have lost the lead.
func signalTo(m *member, name string, s syscall.Signal) {
	if pid := m.below()[name]; pid > 0 {
		syscall.Kill(pid, s)
	}
}

// torments are what befalls the leader, each with a new term as its consequence.
var torments = []struct {
	name string
	do   func(m *member, command int)
	undo func(m *member)
}{
	{"kill -9 of the command", func(_ *member, command int) { syscall.Kill(command, syscall.SIGKILL) }, nil},
	{"SIGTERM of elect", func(m *member, _ int) { m.Process.Signal(syscall.SIGTERM) }, nil},
	{"kill -9 of elect", func(m *member, _ int) { m.Process.Kill() }, nil},
	{"kill -9 of the guard", func(m *member, _ int) { signalTo(m, "elect-guard", syscall.SIGKILL) }, nil},
	{"SIGSTOP of elect", func(m *member, _ int) { m.Process.Signal(syscall.SIGSTOP) }, func(m *member) { m.Process.Signal(syscall.SIGCONT) }},
	{"SIGSTOP of the guard, SIGTERM of elect", func(m *member, _ int) {
		signalTo(m, "elect-guard", syscall.SIGSTOP)
		m.Process.Signal(syscall.SIGTERM)
	}, nil},
}

func TestTheCommandIsDeadBeforeAnotherStarts(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, onFiles(t, "ELECTION_TTL="+testTTL.String()))
		for _, x := range torments {
			if x.undo != nil {
				continue // a process that is stopped keeps its lock, see below
			}
			f.torment(x.name, x.do, nil)
		}
		m, _ := f.leader()
		m.Process.Signal(syscall.SIGSTOP)
		f.silent("SIGSTOP of elect", boottime())
		m.Process.Signal(syscall.SIGCONT)
		f.leader()
		f.check(len(torments) + 1)
	})
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k})
		f := newFleet(t, environ(t.TempDir(), append(onServer(t, s), "ELECTION_TTL="+testTTL.String())...))
		for _, x := range torments {
			f.torment(x.name, x.do, x.undo)
		}
		f.leader()
		stopped := boottime()
		s.Stop(t)
		f.silent("SIGSTOP of the server", stopped)
		s.Continue(t)
		f.leader()
		f.check(len(torments) + 2)
	})
}

// onServer makes the tables on a server and returns the environment for them, with the
// greatest TTL that new tables allow.
func onServer(t *testing.T, s *testbed.Server) []string {
	t.Helper()
	d := s.Database(t)
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
	return []string{"ELECTION_BACKEND=mysql", "ELECTION_TTL=15s", "ELECTION_MYSQL_DSN=" + d.User.FormatDSN()}
}

func (f *fleet) torment(name string, do func(*member, int), undo func(*member)) {
	f.t.Helper()
	m, command := f.leader()
	began := boottime()
	do(m, command)
	if undo != nil {
		before := f.seen
		f.leader()
		at := boottime()
		testbed.Eventually(f.t, patience, "the next command lives for a while", func() error {
			if f.lastHeartbeat() < at+300*time.Millisecond {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		undo(m)
		f.seen = before // so that the next torment finds who leads now
	}
	testbed.Eventually(f.t, patience, name+": the next command", func() error {
		for _, b := range readHistory(f.t, f.history) {
			if b.term > f.seen {
				f.t.Logf("%s: the next command runs %v later", name, b.at-began)
				return nil
			}
		}
		return fmt.Errorf("nobody follows; it says\n%s", m.output.String())
	})
	f.fill()
}

// silent waits until nobody is alive, which must come before trust would end.
func (f *fleet) silent(what string, began time.Duration) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, what+": nobody is alive", func() error {
		if quiet := boottime() - f.lastHeartbeat(); quiet < testTTL {
			return fmt.Errorf("somebody was alive %v ago", quiet)
		}
		return nil
	})
	lived := f.lastHeartbeat() - began
	if lived >= testTTL-testTTL/6 {
		f.t.Errorf("%s: the command lived on for %v; trust ended after %v at the latest", what, lived, testTTL-testTTL/6)
	}
	f.t.Logf("%s: the command lived on for %v, with a TTL of %v", what, lived, testTTL)
}

func (f *fleet) check(least int) {
	f.t.Helper()
	if n := checkHistory(f.t, f.history); n < least {
		f.t.Errorf("%d terms, expected %d: the torments did not bite", n, least)
	}
}
