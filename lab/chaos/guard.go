//go:build linux

package chaos

import (
	"syscall"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// guardStopped is the fault of a guard that releases later than another process leads.
const guardStopped = "guard stopped, kill -9"

// withGuarded adds sites with these names, each process of which has a guard.
func withGuarded(sites map[string]func(t testing.TB) *Site, names ...string) map[string]func(t testing.TB) *Site {
	for _, name := range names {
		open := sites[name]
		sites[name+" guarded"] = func(t testing.TB) *Site { return guarded(open(t)) }
	}
	return sites
}

// guarded gives each process of a site a guard.
func guarded(s *Site) *Site {
	environ := s.environ
	s.Backend += " guarded"
	s.environ = func(i int) []string { return append(environ(i), "ELECTION_GUARD=true") }
	s.faults["guard killed, kill -9"] = killWithGuard(syscall.SIGKILL)
	s.faults[guardStopped] = killWithGuard(syscall.SIGSTOP)
	return s
}

// killWithGuard sends the guard of a leader a signal, and kills the leader. A guard that was stopped resumes
// when another process may lead.
func killWithGuard(signal syscall.Signal) fault {
	guard := 0
	return strike(
		func(r *run, c *child) {
			var err error
			if guard, err = testbed.GuardOf(c.Pid()); err != nil {
				r.Fatal(err)
			}
			syscall.Kill(guard, signal)
			c.Kill()
		},
		func(r *run, _ *child) {
			r.wait(ttl/2, 5*ttl/2)
			if signal == syscall.SIGSTOP {
				syscall.Kill(guard, syscall.SIGCONT)
			}
		})
}
