//go:build linux

package chaos

import (
	"syscall"

	"github.com/go-election/go-election/lab/testbed"
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
		guard, err := testbed.GuardOf(c.cmd.Process.Pid)
		if err != nil {
			r.Fatal(err)
		}
		later := f(guard)
		c.kill()
		r.wait(r.TTL/2, 5*r.TTL/2)
		later()
	}).hit = c.ledAfter(at)
}
