package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// managerCases are about the manager, whatever its store: events, functions, campaigns, operators, nominations, outages,
// and the cost of calls. They are tested once, here.
func managerCases() []Case {
	return slices.Concat(trustCases, eventCases, functionCases, outageCases, operatorCases, nominateCases, costCases)
}

// TestManagers runs the cases about the manager over memory, in virtual time: on a store that notifies, and on one that
// must be polled. On that one all other cases run, too.
func TestManagers(t *testing.T) {
	for name, of := range map[string]func(backend.Backend) backend.Backend{
		"pushed": func(b backend.Backend) backend.Backend { return b },
		"polled": func(b backend.Backend) backend.Backend { return polled{b} },
	} {
		t.Run(name, func(t *testing.T) {
			cases := managerCases()
			if name == "polled" {
				cases = slices.Concat(Cases(), cases)
			}
			runCases(t, cases, Harness{Virtual: true, NewStore: inMemory(func(s *memory.Store) backend.Backend { return of(s.Backend()) })})
		})
	}
}

// inMemory makes stores in memory, whose clients are opened so.
func inMemory(open func(*memory.Store) backend.Backend) func(testing.TB) Store {
	return func(testing.TB) Store {
		store := memory.New()
		return Store{Open: func(testing.TB) backend.Backend { return open(store) }}
	}
}

// polled is a store that must be polled: it notifies nobody.
type polled struct{ backend.Backend }

func (p polled) Guarantees() backend.Guarantees {
	g := p.Backend.Guarantees()
	g.Push, g.Poll = false, true
	return g
}

func (p polled) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return p.Backend.(backend.Marker).Mark(ctx, held)
}

// ownLeaderships counts the events in which this process became leader.
func (p *participant) ownLeaderships() (n int) {
	for _, e := range p.events() {
		if e.Kind == election.Elected && e.Leading {
			n++
		}
	}
	return n
}

// eventTime returns the time of the latest event for which is returns true.
func (p *participant) eventTime(is func(election.Event) bool) (time.Duration, bool) {
	for _, e := range slices.Backward(p.events()) {
		if is(e) {
			return e.Time.Sub(p.node.t.began), true
		}
	}
	return 0, false
}

// hasEvent reports whether the watcher received an event for which is returns true.
func (p *participant) hasEvent(is func(election.Event) bool) bool {
	_, ok := p.eventTime(is)
	return ok
}

func (p *participant) told(reason election.Reason) bool {
	return p.hasEvent(func(e election.Event) bool { return e.Reason == reason })
}

// wonAt returns when the latest leadership of its process began.
func (p *participant) wonAt() time.Duration {
	synctest.Wait() // until the watcher has the event
	at, _ := p.eventTime(func(e election.Event) bool { return e.Leading })
	return at
}

// leader starts a candidate that wins the election "jobs", and leads with fn.
func (t *Trial) leader(id string, change func(*election.Options), fn election.LeadFunc) *participant {
	p := t.participant(id, "jobs", change)
	p.leadWith(fn)
	t.waitForLeader(2*t.takeoverBound(), p)
	return p
}

func (t *Trial) waitForLeadership(limit time.Duration, p *participant) (l *election.Leadership) {
	t.waitUntil(limit, p.node.key+" to lead", func() bool {
		l = p.Leadership()
		return l != nil
	})
	return l
}

func decide(members []*participant, fate func(Call) Fate) {
	for _, p := range members {
		p.node.wire.Decide(fate)
	}
}

// keepCalls keeps the node's calls from now on. log returns those that have ended, in that order.
func (n *node) keepCalls() (log func() []Call) {
	var mu sync.Mutex
	var calls []Call
	n.wire.Notify(func(c Call) {
		n.t.checker.recordCall(n, c)
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, c)
	})
	return func() []Call {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

func (p *participant) leave() { must(p.Leave(p.node.t.callContext()), "leave") }

// lastGrantSent is when the node sent the last granted call of its current or last leadership.
func (n *node) lastGrantSent(name string) (last time.Duration) {
	c := n.t.checker
	c.mu.Lock()
	defer c.mu.Unlock()
	for l, at := range c.sent {
		if l.Process == n.key && l.Election == name {
			last = max(last, at)
		}
	}
	return last
}

// waitForDeadline waits until the node, which is cut off, must no longer trust its lease. A call in flight when the node was
// cut off may still have been granted, so waitForDeadline checks again.
func (t *Trial) waitForDeadline(n *node, name string) {
	for {
		deadline := n.lastGrantSent(name) + n.trusted()
		if t.now() > deadline {
			return
		}
		t.sleep(deadline + time.Microsecond - t.now())
	}
}
