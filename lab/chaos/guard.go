//go:build linux

package chaos

import (
	"syscall"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// guardStopped is the fault of a guard that releases later than another process leads.
const guardStopped = "guard stopped, kill -9"

// Each process of these sites has a guard.
func init() {
	for _, name := range []string{
		"mysql on MariaDB", "postgres", "redis", "etcd", "s3", "consul", "kubernetes", "zookeeper",
	} {
		open := Sites[name]
		Sites[name+" guarded"] = func(t testing.TB) *Site { return guarded(open(t)) }
	}
}

// guarded gives each process of a site a guard.
func guarded(s *Site) *Site {
	environ := s.environ
	s.Backend += " guarded"
	s.environ = func(i int) []string { return append(environ(i), "ELECTION_GUARD=true") }
	return s.with(map[string]fault{
		"guard killed, kill -9": killWithGuard(syscall.SIGKILL),
		guardStopped:            killWithGuard(syscall.SIGSTOP),
	})
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
