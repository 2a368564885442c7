//go:build linux

package chaos

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// Mixed is the name of histories that mix all faults of a site.
const Mixed = "mixed"

// longPause is the fault against which only a fence helps.
const longPause = "pause, long"

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// strike is a fault of the process that leads. It counts if that led when it was hit, by do; then comes rest.
func strike(do, rest func(r *run, c *child)) fault {
	return func(r *run) {
		c, at, led := r.someLeader(), Now(), false
		r.inject(c.Process, func(*Band, Line) bool { return led }, func() {
			do(r, c)
			led = c.ledAfter(at)
			rest(r, c)
		})
	}
}

// nothing is done to a process that is to be asked first whether it leads.
func nothing(*run, *child) {}

// pause is a fault of the process that leads: it is stopped for some time.
func pause(least, most time.Duration) fault {
	return strike(func(_ *run, c *child) { c.Stop() }, func(r *run, c *child) {
		r.wait(least, most)
		c.resume()
	})
}

// processFaults are faults of the process that leads. Every store has them.
func processFaults() map[string]fault {
	return map[string]fault{
		"kill -9": strike(func(_ *run, c *child) { c.Kill() }, func(r *run, _ *child) {
			r.wait(0, 2*ttl) // its replacement starts before or after another member has taken over
		}),
		"leave":        strike(nothing, func(r *run, c *child) { c.Resign() }),
		"pause, short": pause(ttl/10, ttl/2),
		longPause:      pause(3*ttl/2, 5*ttl/2),
		// Like a host that is suspended or live-migrated: all processes resume at the same
		// moment, and find by their clocks that a lease has expired.
		"freeze": strike(
			func(r *run, _ *child) {
				for _, c := range r.current {
					c.Stop()
				}
			},
			func(r *run, _ *child) {
				r.wait(ttl/2, 5*ttl/2)
				for _, c := range r.current {
					c.resume()
				}
			}),
		// Like a CPU quota: the process runs for a few milliseconds in each hundred.
		"starved": strike(nothing, func(r *run, c *child) {
			r.again(ttl+r.N(2*ttl), time.Millisecond, 8*time.Millisecond, func() {
				c.Stop()
				r.wait(92*time.Millisecond, 99*time.Millisecond)
				c.resume()
			})
		}),
	}
}

// networkFaults are faults of the network of the process that leads.
func networkFaults() map[string]fault {
	// of does something to all proxies of the leader.
	of := func(proof proof, do func(r *run, each func(func(p *testbed.Proxy)))) fault {
		return func(r *run) {
			c := r.someLeader()
			r.inject(c.Process, proof, func() {
				do(r, func(f func(p *testbed.Proxy)) {
					for _, p := range r.proxies[c.place] {
						f(p)
					}
				})
			})
		}
	}
	cut := func(f func(p *testbed.Proxy, on bool)) fault {
		return of(byCall, func(r *run, each func(func(p *testbed.Proxy))) {
			each(func(p *testbed.Proxy) { f(p, true) })
			r.wait(ttl/2, 5*ttl/2)
			each(func(p *testbed.Proxy) { f(p, false) })
		})
	}
	return map[string]fault{
		"cut off":       cut((*testbed.Proxy).Cut),
		"requests lost": cut((*testbed.Proxy).CutRequests),
		"answers lost":  cut((*testbed.Proxy).CutReplies),
		// All data of one process arrives late, when another process may lead.
		"held back": cut((*testbed.Proxy).Hold),
		"delay": of(byRenewal, func(r *run, each func(func(p *testbed.Proxy))) {
			r.again(2*ttl+r.N(ttl), ttl/10, ttl/3, func() {
				d := r.N(ttl / 10)
				each(func(p *testbed.Proxy) { p.Delay(d) })
			})
			each(func(p *testbed.Proxy) { p.Delay(0) })
		}),
		"resets": of(byRenewal, func(r *run, each func(func(p *testbed.Proxy))) {
			r.again(ttl+r.N(ttl), time.Millisecond, ttl/10, func() { each((*testbed.Proxy).Reset) })
		}),
	}
}

// while is a fault of this target for as long as do runs.
func while(target string, proof proof, do func(r *run)) fault {
	return func(r *run) { r.inject(target, proof, func() { do(r) }) }
}

// harm is a fault of a server: it is harmed for some time.
func harm(addr string, proof proof, do, undo func(testing.TB), least, most time.Duration) fault {
	return while(addr, proof, func(r *run) {
		do(r)
		r.wait(least, most)
		undo(r)
	})
}

// serverFaults are faults of a store's only server.
func serverFaults(s *testbed.Daemon) map[string]fault {
	return map[string]fault{
		"server killed":         harm(s.Addr(), byCall, s.Kill, s.Start, ttl/10, ttl),
		"server stopped, short": harm(s.Addr(), byCall, s.Stop, s.Continue, ttl/4, ttl),
		"server stopped, long":  harm(s.Addr(), byCall, s.Stop, s.Continue, ttl, 5*ttl/2),
	}
}

// clockFaults step the clock of a server by up to an hour in either direction.
func clockFaults(s *testbed.Daemon) map[string]fault {
	return map[string]fault{
		"clock stepped": while(s.Addr(), byRenewal, func(r *run) {
			for range 1 + r.IntN(4) {
				s.Step(r, r.N(2*time.Hour)-time.Hour)
				r.wait(ttl/2, ttl)
			}
		}),
	}
}
