// Package electiontest lets you test your own program's part in an election: what
// it does when it is elected, cut off, deposed, or taken over from. It starts a
// group of processes, in one test process, on a store in memory, and torments them
// as asked for.
//
//	func TestBillingStopsWhenItsLeaseRunsOut(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			g := electiontest.New(t, election.Options{TTL: 10 * time.Second})
//			for _, id := range []string{"a", "b"} {
//				p := g.Start(id)
//				go billing(t.Context(), p.Manager) // your program
//			}
//			first := g.Leader("billing")
//			g.Expire("billing")
//			if g.Leader("billing") == first {
//				t.Error("the lease ran out, and nobody else leads")
//			}
//		})
//	}
//
// In testing/synctest's virtual time, as here, a TTL of ten seconds passes at once,
// and the same test takes the same course each time but for who wins. Everything
// works in real time too, as slowly as real time passes.
//
// What it cannot show: a process that is stopped altogether (SIGSTOP, a paused
// virtual machine). All processes share one clock and one scheduler. What you
// write to must refuse old terms; test that by handing it one.
package electiontest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// A Group is some processes that share a store. All methods are safe for
// concurrent use.
type Group struct {
	t       testing.TB
	store   *memory.Store
	options election.Options

	mu        sync.Mutex
	processes []*Process
	down      error
	work      map[string]*work
}

// New makes a group without processes. All of them will have these options, but
// for the ID. The zero Options are all defaults: a TTL of 10 s.
func New(t testing.TB, options election.Options) *Group {
	return &Group{t: t, store: memory.New(), options: options, work: map[string]*work{}}
}

// A Process is one member of a group: a manager with a connection of its own to
// the store. Hand its Manager to your program; your program may close it.
type Process struct {
	*election.Manager
	group *Group
	wire  *conformance.Wire

	// Guarded by the group.
	cut     bool
	fail    error
	crashed bool
}

// Start starts a process with that id. The test's cleanup closes it. Ids may come
// back: that is a restart.
func (g *Group) Start(id string) *Process {
	g.t.Helper()
	p := &Process{group: g, wire: conformance.Wrap(g.store.Backend())}
	p.wire.Decide(p.fate)
	o := g.options
	o.ID = id
	m, err := election.New(p.wire, &o)
	if err != nil {
		g.t.Fatalf("electiontest: start %q: %v", id, err)
	}
	p.Manager = m
	g.mu.Lock()
	g.processes = append(g.processes, p)
	g.mu.Unlock()
	g.t.Cleanup(func() {
		for _, other := range g.all() {
			other.Pause() // or each would be elected when the one before it is closed
		}
		ctx, cancel := context.WithTimeout(context.Background(), g.ttl())
		defer cancel()
		m.Close(ctx) // what hangs on a store that is away is abandoned
	})
	return p
}

func (g *Group) ttl() time.Duration {
	if g.options.TTL == 0 {
		return election.DefaultTTL
	}
	return g.options.TTL
}

// fate decides what becomes of a call.
func (p *Process) fate(conformance.Call) conformance.Fate {
	g := p.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case p.cut || p.crashed:
		return conformance.Fate{Lost: true}
	case p.fail != nil:
		return conformance.Fate{Err: p.fail}
	}
	return conformance.Fate{Err: g.down}
}

// Cut cuts the process off from the store, as a network does: its calls hang until
// their time is up. If it leads, it stops leading when its lease can no longer be
// trusted, and others take over when it has run out.
func (p *Process) Cut() { p.set(func() { p.cut = true }) }

// Fail makes each call of the process fail at once with err, which should be of
// one of package backend's classes. nil: no more.
func (p *Process) Fail(err error) { p.set(func() { p.fail = err }) }

// Heal ends Cut and Fail.
func (p *Process) Heal() { p.set(func() { p.cut, p.fail = false, nil }) }

// Crash does to the store and to the others what kill -9 does: nothing more ever
// comes from this process, and nothing is released. Its goroutines cannot be killed:
// your lead function's context ends when its lease can no longer be trusted, and
// until then the process still leads.
func (p *Process) Crash() { p.set(func() { p.crashed = true }) }

func (p *Process) set(f func()) {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	f()
}

// Fail makes each call of each process fail at once with err: the store is down.
// nil: it is up again, and has forgotten nothing.
func (g *Group) Fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = err
}

// Leader waits until one process leads the election, and returns it. The test ends
// if that takes longer than three TTLs and what FailoverDelay and IncumbentGrace add.
func (g *Group) Leader(name string) *Process {
	g.t.Helper()
	var found *Process
	g.until("somebody leads "+fmt.Sprintf("%q", name), func() bool {
		found = g.leading(name)
		return found != nil
	})
	return found
}

func (g *Group) leading(name string) *Process {
	for _, p := range g.all() {
		if e := p.Election(name); e != nil && e.Leading() {
			return p
		}
	}
	return nil
}

func (g *Group) all() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.processes)
}

// Expire lets the leader's lease run out: it is cut off for a TTL and a half, so
// that another candidate, if there is one, has taken over, and is then healed. It
// returns who led.
func (g *Group) Expire(name string) *Process {
	g.t.Helper()
	p := g.Leader(name)
	p.Cut()
	time.Sleep(g.ttl() + g.ttl()/2)
	p.Heal()
	return p
}

// HandOver has an operator nominate a process, and waits until it leads. The test
// ends if it does not, within the time that Leader has: it must be a candidate, and the
// leader's function must return when its context ends.
func (g *Group) HandOver(name string, to *Process) {
	g.t.Helper()
	now := g.Leader(name)
	if now == to {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.ttl())
	defer cancel()
	if err := now.Election(name).Nominate(ctx, to.ID()); err != nil {
		g.t.Fatalf("electiontest: hand %q over to %q: %v", name, to.ID(), err)
	}
	g.until(fmt.Sprintf("%q leads %q", to.ID(), name), func() bool { return g.leading(name) == to })
}

// until waits for something.
func (g *Group) until(what string, done func() bool) {
	g.t.Helper()
	limit := 3*g.ttl() + g.options.FailoverDelay + g.options.IncumbentGrace
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(max(g.ttl()/1000, time.Millisecond))
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end.C:
			var states []string
			for _, p := range g.all() {
				for _, e := range p.Elections() {
					states = append(states, fmt.Sprintf("%s: %v", p.ID(), e.Current()))
				}
			}
			g.t.Fatalf("electiontest: not within %v: %s\n%s", limit, what, strings.Join(states, "\n"))
		}
	}
}
