package elect

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

// A fleet is three "elect run" whose commands write one history. The commands ignore SIGTERM, and
// each has a child that has left its process group.
type fleet struct {
	t       *testing.T
	env     []string
	history string
	members []*member
	seen    uint64 // the newest term so far
}

func newFleet(t *testing.T, env []string) *fleet {
	f := &fleet{t: t, history: filepath.Join(testbed.TempDir(t), "history")}
	f.env = append(env, historyFile+"="+f.history)
	f.fill()
	return f
}

// fill replaces members that have ended.
func (f *fleet) fill() {
	alive := f.members[:0]
	for _, m := range f.members {
		if !m.hasEnded() {
			alive = append(alive, m)
		}
	}
	for f.members = alive; len(f.members) < 3; {
		f.members = append(f.members, start(f.t, f.env, "run", "job", "--stop-timeout", "200ms", "--grace", testGrace.String(), "--reserve", testReserve.String(), "--", os.Args[0]))
	}
}

// leader waits for a new term, and returns its member and the process id of its command.
func (f *fleet) leader() (m *member, command int) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, "a new term", func() error {
		for _, x := range f.members {
			guard := x.descendants()["elect-guard"]
			if guard == 0 {
				continue
			}
			commands := map[int]bool{} // not the command's own children
			list, _ := descendants(x.Process.Pid)
			for _, p := range list {
				commands[p.pid] = p.parent == guard
			}
			for _, b := range readHistory(f.t, f.history) {
				if b.term > f.seen && commands[b.pid] {
					f.seen, m, command = b.term, x, b.pid
					return nil
				}
			}
		}
		return fmt.Errorf("the newest term is %d", f.seen)
	})
	return m, command
}

// lastHeartbeat returns when a command was alive last.
func (f *fleet) lastHeartbeat() (last time.Duration) {
	for _, b := range readHistory(f.t, f.history) {
		last = max(last, b.at)
	}
	return last
}

// On a busy machine a guard may be late by testReserve, and a renewal by what remains of the TTL.
const (
	testTTL     = 8 * time.Second
	testReserve = 2 * time.Second
	testGrace   = 500 * time.Millisecond
)

// signalTo sends a signal to a descendant of m, unless m has lost its leadership and the descendant has ended.
func signalTo(m *member, name string, s syscall.Signal) {
	if pid := m.descendants()[name]; pid > 0 {
		syscall.Kill(pid, s)
	}
}

// faults are injected into the leader. Each leads to a new term.
var faults = []struct {
	name string
	do   func(m *member, command int)
	undo func(m *member)
}{
	{"kill -9 of the command", func(_ *member, command int) { syscall.Kill(command, syscall.SIGKILL) }, nil},
	{"SIGTERM of elect", func(m *member, _ int) { m.Process.Signal(syscall.SIGTERM) }, nil},
	{"kill -9 of elect", func(m *member, _ int) { m.Process.Kill() }, nil},
	{"kill -9 of the guard", func(m *member, _ int) { signalTo(m, "elect-guard", syscall.SIGKILL) }, nil},
	{"kill -9 of the guard while elect can open no file", func(m *member, _ int) {
		var was unix.Rlimit
		unix.Prlimit(m.Process.Pid, unix.RLIMIT_NOFILE, nil, &was)
		unix.Prlimit(m.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}, nil)
		signalTo(m, "elect-guard", syscall.SIGKILL)
		time.AfterFunc(time.Second/2, func() { unix.Prlimit(m.Process.Pid, unix.RLIMIT_NOFILE, &was, nil) })
	}, nil},
	{"SIGSTOP of elect", func(m *member, _ int) { m.Process.Signal(syscall.SIGSTOP) }, func(m *member) { m.Process.Signal(syscall.SIGCONT) }},
	{"SIGSTOP of the guard, SIGTERM of elect", func(m *member, _ int) {
		signalTo(m, "elect-guard", syscall.SIGSTOP)
		m.Process.Signal(syscall.SIGTERM)
	}, nil},
}

// The second signal kills the guard, too. A guard that is stopped cannot report how the command has
// ended, as one that dies too soon.
func TestTheCodeAfterASecondSignalIsThatOfAKill(t *testing.T) {
	t.Parallel()
	m := start(t, onFiles(t), "run", "job", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	m.says("ready")
	signalTo(m, "elect-guard", syscall.SIGSTOP)
	m.Process.Signal(syscall.SIGTERM)
	m.says("a second signal kills")
	m.Process.Signal(syscall.SIGINT)
	m.says("killing the command")
	if code := m.code(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("code %d, want that of a killed command:\n%s", code, m.output.String())
	}
}

func TestTheCommandIsDeadBeforeAnotherStarts(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, onFiles(t, "ELECTION_TTL="+testTTL.String()))
		for _, x := range faults {
			if x.undo != nil {
				continue // a stopped process keeps its lock; see below
			}
			f.inject(x.name, x.do, nil)
		}
		m, _ := f.leader()
		m.Process.Signal(syscall.SIGSTOP)
		f.allDead("SIGSTOP of elect", boottime())
		m.Process.Signal(syscall.SIGCONT)
		f.leader()
		f.check(len(faults) + 1)
	})
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, k, testbed.Options{})
		f := newFleet(t, environ(append(onServer(t, s), "ELECTION_TTL="+testTTL.String())...))
		for _, x := range faults {
			f.inject(x.name, x.do, x.undo)
		}
		f.leader()
		stopped := boottime()
		s.Stop(t)
		f.allDead("SIGSTOP of the server", stopped)
		s.Continue(t)
		f.leader()
		f.check(len(faults) + 2)
	})
}

// onServer creates the tables on a server and returns the environment for them, with the greatest TTL that new tables allow.
func onServer(t *testing.T, s *testbed.Server) []string {
	t.Helper()
	d := s.Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	return []string{"ELECTION_BACKEND=mysql", "ELECTION_TTL=15s", "ELECTION_MYSQL_DSN=" + d.User.FormatDSN()}
}

func (f *fleet) inject(name string, do func(*member, int), undo func(*member)) {
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
		f.seen = before // so that the next fault finds the current leader
	}
	testbed.Eventually(f.t, patience, name+": the next command", func() error {
		for _, b := range readHistory(f.t, f.history) {
			if b.term > f.seen {
				f.t.Logf("%s: the next command runs %v later", name, b.at-began)
				return nil
			}
		}
		return fmt.Errorf("there is no next leader; the last one prints\n%s", m.output.String())
	})
	f.fill()
}

// allDead waits until all commands are dead. They must be before the lease can no longer be trusted.
func (f *fleet) allDead(what string, began time.Duration) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, what+": all commands are dead", func() error {
		if quiet := boottime() - f.lastHeartbeat(); quiet < testTTL {
			return fmt.Errorf("a command was alive %v ago", quiet)
		}
		return nil
	})
	lived := f.lastHeartbeat() - began
	if lived >= testTTL-testTTL/6 {
		f.t.Errorf("%s: the command was alive for %v more; the lease can be trusted for %v at most", what, lived, testTTL-testTTL/6)
	}
	f.t.Logf("%s: the command was alive for %v more, with a TTL of %v", what, lived, testTTL)
}

func (f *fleet) check(least int) {
	f.t.Helper()
	if n := checkHistory(f.t, f.history); n < least {
		f.t.Errorf("%d terms; want at least %d: some faults had no effect", n, least)
	}
}
