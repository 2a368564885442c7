// Package electiontest tests how a program behaves when it is elected, disconnected from
// the store, deposed, or replaced. It starts a group of processes on a store in memory, in
// one test process, and injects the faults that the test asks for.
//
//	func TestBillingStopsWhenItsLeaseExpires(t *testing.T) {
//		electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
//			for _, id := range []string{"a", "b"} {
//				p := g.Start(id)
//				go billing(t.Context(), p.Manager) // your program
//			}
//			first := g.Leader("billing")
//			first.Cut() // its calls hang from now on
//			second := g.Next("billing", first)
//			if first.Election("billing").Leading() {
//				t.Errorf("%s and %s both lead", first.ID(), second.ID())
//			}
//		})
//	}
//
// In the virtual time of [Test], a TTL of ten seconds passes at once, and the test takes the same course each
// time, except for which process wins. With [New] a group also works in real time.
//
// The package cannot simulate a process that is stopped (SIGSTOP, a paused virtual
// machine): all processes share one clock and one scheduler. The systems that your program
// writes to must refuse old terms; test them with an old term.
package electiontest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/wire"
)

// A Group is a set of processes that share a store. All methods are safe for concurrent use.
type Group struct {
	t       testing.TB
	store   *memory.Store
	options election.Options

	mu        sync.Mutex
	processes []*Process
	down      error
	work      map[string]*work
}

// New makes a group without processes. Each process gets these options, and its own ID.
// The zero Options mean all defaults: a TTL of 10 s.
//
// In virtual time a test that waits for an event that never comes would run forever, since the processes
// go on renewing and bidding. So after 300 hours, which pass in some seconds of real time, the test binary
// ends with the states of all processes.
func New(t testing.TB, options election.Options) *Group {
	g := &Group{t: t, store: memory.New(), options: options, work: map[string]*work{}}
	const limit = 300 * time.Hour
	watchdog := time.AfterFunc(limit, func() {
		exit("electiontest: %s still waits after %v; the states are\n%s", t.Name(), limit, g.states())
	})
	t.Cleanup(func() { watchdog.Stop() })
	return g
}

// A Process is one member of a group: a manager with its own connection to the store.
// Pass its Manager to your program, which may close it.
type Process struct {
	*election.Manager
	group *Group
	wire  *wire.Wire

	// Guarded by group.mu.
	cut     bool
	fail    error
	crashed bool
}

// Start starts a process with this id. The test's cleanup closes it. Starting an id again is a restart.
func (g *Group) Start(id string) *Process {
	g.t.Helper()
	p := &Process{group: g, wire: wire.Wrap(g.store.Backend())}
	p.wire.Decide(p.fate)
	o := g.options
	o.ID = id
	m, err := election.New(p.wire, o)
	if err != nil {
		g.t.Fatalf("electiontest: start %q: %v", id, err)
	}
	p.Manager = m
	g.mu.Lock()
	g.processes = append(g.processes, p)
	g.mu.Unlock()
	g.t.Cleanup(func() {
		for _, other := range g.all() {
			other.Pause() // otherwise each would be elected when the process before it is closed
		}
		ctx, cancel := context.WithTimeout(context.Background(), g.ttl())
		defer cancel()
		m.Close(ctx) // abandons calls that hang because the process is cut off
	})
	return p
}

func (g *Group) ttl() time.Duration { return cmp.Or(g.options.TTL, election.DefaultTTL) }

// fate decides the outcome of a call.
func (p *Process) fate(wire.Call) wire.Fate {
	g := p.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case p.cut || p.crashed:
		return wire.Fate{Lost: true}
	case p.fail != nil:
		return wire.Fate{Err: p.fail}
	}
	return wire.Fate{Err: g.down}
}

// Cut cuts the process off from the store, as a network fault does: its calls hang until
// they time out. If the process leads, it stops leading when its lease is no longer valid,
// and other candidates take over when the lease has expired.
func (p *Process) Cut() { p.group.set(func() { p.cut = true }) }

// Fail makes each call of the process fail at once with err, which should be of one of the
// classes of package backend. Fail(nil) ends this.
func (p *Process) Fail(err error) { p.group.set(func() { p.fail = err }) }

// Heal ends Cut and Fail.
func (p *Process) Heal() { p.group.set(func() { p.cut, p.fail = false, nil }) }

// Crash has the effect of kill -9: the process leads no longer, makes no further call of the
// store and releases no lease. Goroutines cannot be killed, so the contexts of its lead
// functions end instead, and Run, Campaign and all other calls return election.ErrClosed. To
// restart the process, call Start with the same id.
func (p *Process) Crash() {
	p.group.set(func() { p.crashed = true })
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan struct{})
	go func() { // not here: a lead function may call Crash
		defer close(closed)
		p.Close(ended) // does not wait for lead functions
	}()
	<-closed
}

func (g *Group) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// Fail makes each call of each process fail at once with err: the store is down. Fail(nil)
// brings the store back with all its data.
func (g *Group) Fail(err error) { g.set(func() { g.down = err }) }

// Leader waits until a process leads the election, and returns it. The test fails at once
// if that takes longer than three TTLs plus FailoverDelay and IncumbentGrace. A leader that was
// cut off leads on until it no longer trusts its lease, and is returned until then: see Next.
func (g *Group) Leader(name string) *Process {
	g.t.Helper()
	return g.await(name, fmt.Sprintf("a process leads %q", name), func(*Process) bool { return true })
}

// Next waits until another process than p leads the election, for as long as Leader does, and returns it.
func (g *Group) Next(name string, p *Process) *Process {
	g.t.Helper()
	what := fmt.Sprintf("another process than %s leads %q", p.ID(), name)
	return g.await(name, what, func(now *Process) bool { return now != p })
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

// Expire lets the leader's lease expire: it cuts the leader off for one and a half TTLs, in which another
// candidate, if there is one, takes over, and then heals it. Expire returns the former leader.
func (g *Group) Expire(name string) *Process {
	g.t.Helper()
	p := g.Leader(name)
	p.Cut()
	time.Sleep(g.ttl() + g.ttl()/2)
	p.Heal()
	return p
}

// HandOver nominates a process and waits until it leads. The process must be a candidate,
// and the leader's function must return when its context ends. The test fails at once if
// the handover takes longer than Leader may take.
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
	g.await(name, fmt.Sprintf("%q leads %q", to.ID(), name), func(now *Process) bool { return now == to })
}

// await waits until a process leads for which is returns true.
func (g *Group) await(name, what string, is func(*Process) bool) *Process {
	g.t.Helper()
	limit := 3*g.ttl() + g.options.FailoverDelay + g.options.IncumbentGrace
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(max(g.ttl()/1000, time.Millisecond))
	defer tick.Stop()
	for {
		if p := g.leading(name); p != nil && is(p) {
			return p
		}
		select {
		case <-tick.C:
		case <-end.C:
			g.t.Fatalf("electiontest: not within %v: %s; the states are\n%s", limit, what, g.states())
		}
	}
}

// states has a line for each process and election.
func (g *Group) states() string {
	var states []string
	for _, p := range g.all() {
		for _, e := range p.Elections() {
			states = append(states, fmt.Sprintf("%s: %v", p.ID(), e.Current()))
		}
	}
	if states == nil {
		return "(no process has joined an election)"
	}
	return strings.Join(states, "\n")
}
