//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// guardStopped is the fault of a guard that releases later than another process leads.
const guardStopped = "guard stopped, kill -9"

// guarded gives each process of a site a guard.
func guarded(s *Site) *Site {
	environ := s.environ
	s.Backend += " guarded"
	s.environ = func(i int) []string { return append(environ(i), "ELECTION_GUARD=true") }
	s.faults = join(s.faults, map[string]fault{
		"guard killed, kill -9": func(r *run) {
			r.killWithGuard("guard killed, kill -9", func(guard int) (later func()) {
				syscall.Kill(guard, syscall.SIGKILL)
				return func() {}
			})
		},
		guardStopped: func(r *run) {
			r.killWithGuard(guardStopped, func(guard int) (later func()) {
				syscall.Kill(guard, syscall.SIGSTOP)
				return func() { syscall.Kill(guard, syscall.SIGCONT) }
			})
		},
	})
	return s
}

// killWithGuard kills a leader, after f has done something to its guard. What f returns is done when
// another process may lead.
func (r *run) killWithGuard(name string, f func(guard int) (later func())) {
	c, at := r.someLeader(), Now()
	r.inject(name, c.Process, byTarget, func() {
		later := f(c.guard(r))
		c.kill()
		r.wait(r.TTL/2, 5*r.TTL/2)
		later()
	}).hit = c.ledAfter(at)
}

// guard returns the process that guards c.
func (c *child) guard(r *run) int {
	r.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(c.cmd.Process.Pid) && strings.HasPrefix(string(args), "electionguard\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return pid
		}
	}
	r.Fatalf("%s has no guard", c.Process)
	return 0
}
