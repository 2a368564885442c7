//go:build linux

package chaos

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

// Mixed is the name of histories that mix all faults of a site.
const Mixed = "mixed"

// longPause is the fault that a fence is for.
const longPause = "pause, long"

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// processFaults torment the process that leads. Every store has them.
func processFaults() map[string]fault {
	return map[string]fault{
		"kill -9": func(r *run) {
			c, at := r.someLeader(), Now()
			b := r.during("kill -9", c.Process, byTarget, func() {
				c.kill()
				r.pass(0, 2*r.TTL) // its successor comes before or after the others have taken over
			})
			b.hit = c.ledAfter(at)
		},
		"leave": func(r *run) {
			c := r.someLeader()
			led := c.ledAfter(Now())
			r.during("leave", c.Process, byTarget, func() { c.terminate(r) }).hit = led
		},
		"pause, short": func(r *run) { r.pauseLeader("pause, short", r.TTL/10, r.TTL/2) },
		longPause:      func(r *run) { r.pauseLeader(longPause, 3*r.TTL/2, 5*r.TTL/2) },
		// A host that is suspended, or moved as it runs: all go on at one moment, and find
		// that a lease has passed by their clocks.
		"freeze": func(r *run) {
			c, at := r.someLeader(), Now()
			led := false
			r.during("freeze", c.Process, byTarget, func() {
				var pids []int
				for _, c := range r.crew {
					pids = append(pids, c.cmd.Process.Pid)
				}
				thaw := testbed.Freeze(r, pids...)
				led = c.ledAfter(at)
				r.pass(r.TTL/2, 5*r.TTL/2)
				thaw()
			}).hit = led
		},
		// What a CPU quota does: a few milliseconds in each hundred.
		"starved": func(r *run) {
			c := r.someLeader()
			led := c.ledAfter(Now())
			r.during("starved", c.Process, byTarget, func() {
				for end := Now() + r.TTL + r.N(2*r.TTL); Now() < end; {
					c.stop(r)
					r.pass(92*time.Millisecond, 99*time.Millisecond)
					c.goOn()
					r.pass(time.Millisecond, 8*time.Millisecond)
				}
			}).hit = led
		},
	}
}

func (r *run) pauseLeader(name string, least, most time.Duration) {
	c, at := r.someLeader(), Now()
	led := false
	r.during(name, c.Process, byTarget, func() {
		c.stop(r)
		led = c.ledAfter(at)
		r.pass(least, most)
		c.goOn()
	}).hit = led
}

// networkFaults torment the network of the process that leads.
func networkFaults() map[string]fault {
	cut := func(name string, f func(p *testbed.Proxy, on bool)) fault {
		return func(r *run) {
			c := r.someLeader()
			r.during(name, c.Process, byCall, func() {
				for _, p := range r.proxies[c.seat] {
					f(p, true)
				}
				r.pass(r.TTL/2, 5*r.TTL/2)
				for _, p := range r.proxies[c.seat] {
					f(p, false)
				}
			})
		}
	}
	return map[string]fault{
		"cut off":       cut("cut off", (*testbed.Proxy).Cut),
		"requests lost": cut("requests lost", (*testbed.Proxy).CutRequests),
		"answers lost":  cut("answers lost", (*testbed.Proxy).CutReplies),
		"delay": func(r *run) {
			c := r.someLeader()
			r.during("delay", c.Process, byRenewal, func() {
				for end := Now() + 2*r.TTL + r.N(r.TTL); Now() < end; {
					d := r.N(r.TTL / 10)
					for _, p := range r.proxies[c.seat] {
						p.Delay(d)
					}
					r.pass(r.TTL/10, r.TTL/3)
				}
				for _, p := range r.proxies[c.seat] {
					p.Delay(0)
				}
			})
		},
		// Everything of one process arrives late, at a moment when others may lead.
		"held back": cut("held back", (*testbed.Proxy).Hold),
		"resets": func(r *run) {
			c := r.someLeader()
			r.during("resets", c.Process, byRenewal, func() {
				for end := Now() + r.TTL + r.N(r.TTL); Now() < end; {
					for _, p := range r.proxies[c.seat] {
						p.Reset()
					}
					r.pass(time.Millisecond, r.TTL/10)
				}
			})
		},
	}
}

// A server is one process of a store.
type server interface {
	Kill(t testing.TB)
	Start(t testing.TB)
	Stop(t testing.TB)
	Continue(t testing.TB)
	Pid(t testing.TB) int
	Addr() string
}

// serverFaults torment the one server of a store.
func serverFaults(s server) map[string]fault {
	faults := map[string]fault{
		"server killed": func(r *run) {
			r.during("server killed", s.Addr(), byCall, func() {
				s.Kill(r)
				r.pass(r.TTL/10, r.TTL)
				s.Start(r)
			})
		},
		"server stopped, short": func(r *run) { r.stopServer("server stopped, short", s, r.TTL/4, r.TTL) },
		"server stopped, long":  func(r *run) { r.stopServer("server stopped, long", s, r.TTL, 5*r.TTL/2) },
	}
	return faults
}

func (r *run) stopServer(name string, s server, least, most time.Duration) {
	r.during(name, s.Addr(), byCall, func() {
		s.Stop(r)
		r.pass(least, most)
		s.Continue(r)
	})
}

// clockFaults step the clock of a server, by up to an hour in either direction.
func clockFaults(s interface {
	Step(t testing.TB, d time.Duration)
	Addr() string
}) map[string]fault {
	return map[string]fault{
		"clock stepped": func(r *run) {
			r.during("clock stepped", s.Addr(), byRenewal, func() {
				for range 1 + r.IntN(4) {
					s.Step(r, r.N(2*time.Hour)-time.Hour)
					r.pass(r.TTL/2, r.TTL)
				}
			})
		},
	}
}

// slowDisk makes every sync of a server take a third of a second and more, by strace.
func slowDisk(s server) fault {
	return func(r *run) {
		r.during("slow fsync", s.Addr(), byRenewal, func() {
			delay := 100*time.Millisecond + r.N(r.TTL/3)
			cmd := exec.Command("strace", "-f", "-p", strconv.Itoa(s.Pid(r)), "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
				"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", delay.Microseconds()))
			said, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				r.Fatalf("slow fsync: %v", err)
			}
			lines := bufio.NewScanner(said)
			if !lines.Scan() || !strings.Contains(lines.Text(), "attached") {
				r.Errorf("slow fsync: strace says %q", lines.Text())
			}
			go io.Copy(io.Discard, said)
			r.pass(r.TTL, 3*r.TTL)
			cmd.Process.Signal(syscall.SIGTERM) // it lets go of the server
			cmd.Wait()
		})
	}
}
