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

	"github.com/go-election/go-election/lab/testbed"
)

// Mixed is the name of histories that mix all faults of a site.
const Mixed = "mixed"

// longPause is the fault against which only a fence helps.
const longPause = "pause, long"

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// processFaults are faults of the process that leads. Every store has them.
func processFaults() map[string]fault {
	return map[string]fault{
		"kill -9": func(r *run) {
			c, at := r.someLeader(), Now()
			b := r.inject("kill -9", c.Process, byTarget, func() {
				c.kill()
				r.wait(0, 2*r.TTL) // its replacement starts before or after another member has taken over
			})
			b.hit = c.ledAfter(at)
		},
		"leave": func(r *run) {
			c := r.someLeader()
			led := c.ledAfter(Now())
			r.inject("leave", c.Process, byTarget, func() { c.terminate(r) }).hit = led
		},
		"pause, short": func(r *run) { r.pauseLeader("pause, short", r.TTL/10, r.TTL/2) },
		longPause:      func(r *run) { r.pauseLeader(longPause, 3*r.TTL/2, 5*r.TTL/2) },
		// Like a host that is suspended or live-migrated: all processes resume at the same
		// moment, and find by their clocks that a lease has expired.
		"freeze": func(r *run) {
			c, at := r.someLeader(), Now()
			led := false
			r.inject("freeze", c.Process, byTarget, func() {
				all := slices.Clone(r.current)
				for _, c := range all {
					c.stop(r)
				}
				led = c.ledAfter(at)
				r.wait(r.TTL/2, 5*r.TTL/2)
				for _, c := range all {
					c.resume()
				}
			}).hit = led
		},
		// Like a CPU quota: the process runs for a few milliseconds in each hundred.
		"starved": func(r *run) {
			c := r.someLeader()
			led := c.ledAfter(Now())
			r.inject("starved", c.Process, byTarget, func() {
				for end := Now() + r.TTL + r.N(2*r.TTL); Now() < end; {
					c.stop(r)
					r.wait(92*time.Millisecond, 99*time.Millisecond)
					c.resume()
					r.wait(time.Millisecond, 8*time.Millisecond)
				}
			}).hit = led
		},
	}
}

func (r *run) pauseLeader(name string, least, most time.Duration) {
	c, at := r.someLeader(), Now()
	led := false
	r.inject(name, c.Process, byTarget, func() {
		c.stop(r)
		led = c.ledAfter(at)
		r.wait(least, most)
		c.resume()
	}).hit = led
}

// networkFaults are faults of the network of the process that leads.
func networkFaults() map[string]fault {
	cut := func(name string, f func(p *testbed.Proxy, on bool)) fault {
		return func(r *run) {
			c := r.someLeader()
			r.inject(name, c.Process, byCall, func() {
				for _, p := range r.proxies[c.member] {
					f(p, true)
				}
				r.wait(r.TTL/2, 5*r.TTL/2)
				for _, p := range r.proxies[c.member] {
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
			r.inject("delay", c.Process, byRenewal, func() {
				for end := Now() + 2*r.TTL + r.N(r.TTL); Now() < end; {
					d := r.N(r.TTL / 10)
					for _, p := range r.proxies[c.member] {
						p.Delay(d)
					}
					r.wait(r.TTL/10, r.TTL/3)
				}
				for _, p := range r.proxies[c.member] {
					p.Delay(0)
				}
			})
		},
		// All data of one process arrives late, when another process may lead.
		"held back": cut("held back", (*testbed.Proxy).Hold),
		"resets": func(r *run) {
			c := r.someLeader()
			r.inject("resets", c.Process, byRenewal, func() {
				for end := Now() + r.TTL + r.N(r.TTL); Now() < end; {
					for _, p := range r.proxies[c.member] {
						p.Reset()
					}
					r.wait(time.Millisecond, r.TTL/10)
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

// serverFaults are faults of a store's only server.
func serverFaults(s server) map[string]fault {
	faults := map[string]fault{
		"server killed": func(r *run) {
			r.inject("server killed", s.Addr(), byCall, func() {
				s.Kill(r)
				r.wait(r.TTL/10, r.TTL)
				s.Start(r)
			})
		},
		"server stopped, short": func(r *run) { r.stopServer("server stopped, short", s, r.TTL/4, r.TTL) },
		"server stopped, long":  func(r *run) { r.stopServer("server stopped, long", s, r.TTL, 5*r.TTL/2) },
	}
	return faults
}

func (r *run) stopServer(name string, s server, least, most time.Duration) {
	r.inject(name, s.Addr(), byCall, func() {
		s.Stop(r)
		r.wait(least, most)
		s.Continue(r)
	})
}

// clockFaults step the clock of a server by up to an hour in either direction.
func clockFaults(s interface {
	Step(t testing.TB, d time.Duration)
	Addr() string
}) map[string]fault {
	return map[string]fault{
		"clock stepped": func(r *run) {
			r.inject("clock stepped", s.Addr(), byRenewal, func() {
				for range 1 + r.IntN(4) {
					s.Step(r, r.N(2*time.Hour)-time.Hour)
					r.wait(r.TTL/2, r.TTL)
				}
			})
		},
	}
}

// slowDisk delays every sync of a server by a tenth of a second and more, by strace.
func slowDisk(s server) fault {
	return func(r *run) {
		r.inject("slow fsync", s.Addr(), byRenewal, func() {
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
			r.wait(r.TTL, 3*r.TTL)
			cmd.Process.Signal(syscall.SIGTERM) // detaches strace from the server
			cmd.Wait()
		})
	}
}
