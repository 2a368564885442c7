//go:build linux

package electionguard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A program that has ended, however that was, leaves nothing held: neither what it was granted, in that
// term, nor what an unanswered bid may have got. What it had released is left alone.
func TestTheEndOfTheProgramReleases(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*guarded){
		"kill -9":            func(p *guarded) { p.kill() },
		"SIGTERM, unhandled": func(p *guarded) { p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGSEGV":            func(p *guarded) { p.cmd.Process.Signal(syscall.SIGSEGV) },
		"panic":              func(p *guarded) { p.order("panic") },
		"os.Exit":            func(p *guarded) { p.order("exit") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startGuarded(t)
			p.wantNothing("alive")
			end(p)
			p.wantReleased(released)
		})
	}
}

// An orderly end needs no guard.
func TestAClosedGuardEndsAndReleasesNothing(t *testing.T) {
	t.Parallel()
	p := startGuarded(t)
	p.do("close")
	testbed.Eventually(t, 10*time.Second, "the guard ends", func() error {
		if pids := p.guards(); len(pids) > 0 {
			return fmt.Errorf("there are %v", pids)
		}
		return nil
	})
	p.kill()
	p.wantNothing("after an orderly end")
}

// While a part of the program may go on, nothing is released; it is when that has ended.
func TestWhatLivesOnHasNotEnded(t *testing.T) {
	t.Parallel()
	kill := func(p *guarded) { p.kill() }
	endChild := func(p *guarded) { syscall.Kill(p.lastChild, syscall.SIGKILL) }
	spawn := func(files int) func(*guarded) {
		return func(p *guarded) {
			p.order(fmt.Sprint("spawn /usr/bin/sleep ", files))
			p.child()
			p.kill()
		}
	}
	for name, c := range map[string]struct {
		environ string
		do, end func(*guarded)
	}{
		// A stopped process may continue, and would believe that it leads.
		"it is stopped": {"", func(p *guarded) { p.cmd.Process.Signal(syscall.SIGSTOP) }, func(p *guarded) {
			p.cmd.Process.Signal(syscall.SIGCONT)
			p.do("nothing")
			p.kill()
		}},
		// exec(2) ends all threads but one, and closes files, but the process lives on with another program.
		"it executes another program": {"", func(p *guarded) { p.order("exec /usr/bin/sleep") }, kill},
		// A pipe that was closed by mistake says that the process has ended. The kernel's other word is missing.
		"its pipe was closed": {"", func(p *guarded) { p.do("lose-files") }, kill},
		// A child may go on with the dead leader's work. Its own files take numbers from 3 on, whatever it would have
		// inherited there.
		"a child lives on":                  {"", spawn(0), endChild},
		"a child with 1 file lives on":      {"", spawn(1), endChild},
		"a child with 7 files lives on":     {"", spawn(7), endChild},
		"a child with 40 files lives on":    {"", spawn(40), endChild},
		"a child with 300 files lives on":   {"", spawn(300), endChild},
		"a child with 1,500 files lives on": {"", spawn(1500), endChild},
		// The guard may begin when children run already.
		"an older child lives on": {"CHILD_FIRST=1", kill, endChild},
		// What the program has sent may still be on its way.
		"the grace has not passed": {"GRACE=1500ms", kill, func(*guarded) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startGuarded(t, c.environ)
			c.do(p)
			p.wantNothing(name)
			c.end(p)
			p.wantReleased(released)
		})
	}
}

// A child that closes all files that it does not know, as daemons do, is not known: docs/guard.md says that it must not do the
// leader's work.
func TestAChildThatClosesAllFilesIsNotKnown(t *testing.T) {
	t.Parallel()
	daemon := filepath.Join(t.TempDir(), "daemon")
	text := "#!/bin/bash\nfor f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 2 ] && [ $n -ne 255 ] && eval \"exec $n>&-\"; done\nexec /usr/bin/sleep 1000\n"
	testbed.NoError(t, os.WriteFile(daemon, []byte(text), 0o700))
	p := startGuarded(t)
	p.order("spawn " + daemon)
	pid := p.child()
	testbed.Eventually(t, 30*time.Second, "the child has closed its files", func() error {
		if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.HasPrefix(string(command), "/usr/bin/sleep") {
			return fmt.Errorf("it runs %q: %w", command, err)
		}
		return nil
	})
	p.kill()
	p.wantReleased(released)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the child has ended: %v", err)
	}
}

// When the leases have expired there is nothing left to release: the guard ends, and its connection with it.
func TestAGuardWaitsNoLongerThanTheLeasesLast(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*guarded){
		"a child lives on":         func(p *guarded) { p.order("spawn /usr/bin/sleep"); p.child(); p.kill() },
		"it runs another program":  func(p *guarded) { p.order("exec /usr/bin/sleep") },
		"its files were closed":    func(p *guarded) { p.do("lose-files") },
		"an older child lives on":  func(p *guarded) { p.kill() },
		"it held nothing any more": func(p *guarded) { p.do("release"); p.order("exec /usr/bin/sleep") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startGuarded(t, "TTL=1s", "CHILD_FIRST=1", "STDERR=full")
			p.wantGuardEnds(func() { end(p) })
			p.wantNothing("after the leases have expired")
		})
	}
}

// Nobody reads its messages, and the pipe is full. It ends all the same, and the container that waits for it.
func TestAGuardThatNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	p := startGuarded(t, "STDERR=full")
	p.wantGuardEnds(p.kill)
	p.wantReleased(released)
}

// The guard of a second manager does not hold the pipe of the first.
func TestTwoGuardsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	p := startGuarded(t)
	p.do("another-guard")
	if pids := p.guards(); len(pids) != 2 {
		t.Fatalf("the guards are %v, want two", pids)
	}
	testbed.Eventually(t, 30*time.Second, "guards that have begun have no writing end of a pipe", func() error {
		for _, pid := range p.guards() {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
			for _, file := range files {
				fd, _ := strconv.Atoi(filepath.Base(file))
				to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
				_, flags, _ := strings.Cut(readAll(file), "flags:\t")
				if fd > 2 && strings.HasPrefix(to, "pipe:") && strings.HasSuffix(strings.Fields(flags + " -")[0], "1") {
					return fmt.Errorf("guard %d has file %d, %s", pid, fd, to)
				}
			}
		}
		return nil
	})
	p.kill()
	testbed.Eventually(t, 30*time.Second, "both release", func() error {
		if got := p.written(); strings.Count(got, "jobs/7 failed;") != 2 {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

// A program with ten thousand leases tells its guard all of them.
func TestAGuardKnowsOfTenThousandLeases(t *testing.T) {
	t.Parallel()
	p := startGuarded(t)
	p.do("many 10000")
	p.kill()
	testbed.Eventually(t, 30*time.Second, "the guard releases them", func() error {
		if n := strings.Count(p.written(), "many/"); n != 10000 {
			return fmt.Errorf("%d are released", n)
		}
		return nil
	})
}

// A thread that the kernel does not let end is a part of the program. Here it is frozen.
func TestAThreadThatCannotEndHasNotEnded(t *testing.T) {
	group, err := os.MkdirTemp("/sys/fs/cgroup/freezer", "election-guard-")
	if err != nil {
		t.Skipf("no control group can be frozen here: %v", err)
	}
	write := func(file, text string) {
		t.Helper()
		testbed.NoError(t, os.WriteFile(filepath.Join(group, file), []byte(text), 0))
	}
	p := startGuarded(t)
	write("cgroup.procs", strconv.Itoa(p.cmd.Process.Pid))
	defer testbed.Eventually(t, 10*time.Second, "the group is empty", func() error { return os.Remove(group) })
	write("freezer.state", "FROZEN")
	p.kill()
	p.wantNothing("killed, but frozen")
	write("freezer.state", "THAWED")
	p.wantReleased(released)
}

// A process that dumps core has not ended: its files are closed, and its memory is written.
func TestACoreDumpIsNoEnd(t *testing.T) {
	t.Parallel()
	p := startGuarded(t, "GOTRACEBACK=crash")
	pid := p.cmd.Process.Pid
	p.do("dump")
	p.cmd.Process.Signal(syscall.SIGABRT)
	dumped := false
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		early := p.written()
		if !strings.Contains(string(status), "CoreDumping:\t1") {
			if dumped || strings.Contains(string(status), "State:\tZ") {
				break
			}
			continue
		}
		if dumped = true; early != "" {
			t.Fatalf("the guard has released %q while core is dumped", early)
		}
	}
	if !dumped {
		t.Fatal("no core was dumped: the test shows nothing")
	}
	p.wantReleased(released)
}

// The end of a guard costs what it costs without one: a TTL. The program says so.
func TestADeadGuardIsNoticed(t *testing.T) {
	t.Parallel()
	p := startGuarded(t)
	for _, pid := range p.guards() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if line := p.hear("time="); !strings.Contains(line, "the guard has ended") {
		t.Errorf("the log says %q", line)
	}
	p.do("many 10")
	p.kill()
	p.wantNothing("without a guard")
}

// Signals that a terminal or a service manager sends to all processes do not end the guard.
func TestAGuardOutlivesSignalsToAll(t *testing.T) {
	t.Parallel()
	p := startGuarded(t)
	for _, pid := range p.guards() {
		testbed.Eventually(t, 30*time.Second, "the guard is ready", func() error { return ignoresSignals(pid) })
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			syscall.Kill(pid, s)
		}
	}
	p.kill()
	p.wantReleased(released)
}

// The kernel kills a container with its process 1. So that is not the program: it waits for the guard.
func TestAProgramMayBeProcessOne(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		do   func(p *guarded, program int)
		code int
		want string
	}{
		"kill -9 of the program": {func(_ *guarded, program int) { syscall.Kill(program, syscall.SIGKILL) }, 137, released},
		"exit":                   {func(p *guarded, _ int) { p.order("exit") }, 3, released},
		"SIGTERM to process 1":   {func(p *guarded, program int) { syscall.Kill(parent(program), syscall.SIGTERM) }, 143, released},
		"orderly":                {func(p *guarded, _ int) { p.do("close"); p.order("exit") }, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startGuarded(t, "UNSHARED=1")
			p.order("spawn /usr/bin/sleep") // a child ends with its container
			p.hear("child ")
			program := 0
			for _, pid := range descendants(p.cmd.Process.Pid) {
				if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent(pid))); pid != p.cmd.Process.Pid && strings.HasPrefix(string(args), os.Args[0]) {
					if own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(own), os.Args[0]) {
						program = pid
					}
				}
			}
			if program == 0 {
				t.Fatal("process 1 has no child")
			}
			end.do(p, program)
			if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != end.code {
				t.Errorf("the container ended with %v, want code %d", err, end.code)
			}
			if got := p.written(); got != end.want {
				t.Errorf("when the container has ended, the guard has written %q, want %q", got, end.want)
			}
		})
	}
}
