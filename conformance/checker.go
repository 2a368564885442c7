package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A judge watches the managers of a case all the time: who believes to lead, on
// what grant, and what watchers are told. It samples at every change and many
// times a TTL, and keeps the history that [Check] is given in the end.
type checker struct {
	t        *Trial
	interval atomic.Int64 // between two samples
	stop     chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	groups  []*electionGroup
	history History
}

// A group is all the seats of one election.
type electionGroup struct {
	name         string
	participants []*participant
}

func newChecker(t *Trial) *checker {
	j := &checker{t: t, stop: make(chan struct{}), done: make(chan struct{})}
	j.interval.Store(int64(max(t.TTL/64, time.Millisecond)))
	go func() {
		defer close(j.done)
		for {
			select {
			case <-time.After(time.Duration(j.interval.Load())):
				j.sample()
			case <-j.stop:
				return
			}
		}
	}()
	return j
}

func (j *checker) add(p *participant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		if g.name == p.Name() {
			g.participants = append(g.participants, p)
			return
		}
	}
	j.groups = append(j.groups, &electionGroup{p.Name(), []*participant{p}})
}

// sweep asks everybody whether they lead. That two say yes is a proof of overlap
// only if the first still does after the second has been asked; so it is.
func (j *checker) sample() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		var first *participant
		for _, p := range g.participants {
			if p.node.dead.Load() {
				continue
			}
			before := j.t.now()
			l := p.Leadership()
			if l == nil {
				continue
			}
			after := j.t.now()
			j.recordBelief(p, l.Term, before, after)
			if first == nil {
				first = p
			} else if j.t.Exclusive && first.Leading() {
				j.t.addError(violation("S1", "two leaders never", "%s and %s both lead %q at %v", first.node.key, p.node.key, g.name, after))
			}
		}
	}
}

// believes notes that a seat led between before and after. The interval noted
// lies within the true one.
func (j *checker) recordBelief(p *participant, term uint64, before, after time.Duration) {
	if b := p.belief; b != nil && b.Term == term {
		b.To = max(b.To, before)
	} else {
		p.finishBelief(j)
		p.belief = &Entry{Process: p.node.key, Election: p.Name(), Kind: Believed, Term: term, From: after, To: after}
	}
	n := p.node
	sent, ok := n.grantSent(p.Name(), term)
	if deadline := sent + n.ttl - n.clockMargin; ok && before > deadline {
		j.t.addError(violation("S2", "trusted until at most the start of the successful call + TTL − clock margin",
			"%s leads %q at %v; its last granted call was sent at %v, so its deadline was %v", n.key, p.Name(), before, sent, deadline))
	}
}

// note adds to the history.
func (j *checker) record(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = append(j.history, e)
}

// settle moves a finished belief to the history.
func (p *participant) finishBelief(j *checker) {
	if p.belief != nil {
		j.history = append(j.history, *p.belief)
		p.belief = nil
	}
}

// verdict waits until watchers have been told everything, closes the managers in
// order and checks the history.
func (j *checker) finish() error {
	t := j.t
	var errs []error
	for _, g := range j.groups {
		for _, p := range g.participants {
			if p.node.dead.Load() || p.watcherEnded {
				continue
			}
			var state election.Event
			told := func() bool {
				state = p.Current()
				last, ok := p.lastState()
				return ok && last.State == state.Kind && last.Leader == state.Leader.Nonce && (state.Kind != election.Elected || last.Term == state.Term)
			}
			if err := t.waitUntil(t.TTL/2, "the last event to equal the final state", told); err != nil {
				last, _ := p.lastState()
				errs = append(errs, violation("S10", "the last event equals the final state", "%s in %q: told %v; but the state is %v", p.node.key, p.Name(), last, state))
			}
		}
	}
	for _, n := range t.nodes {
		errs = append(errs, n.closeQuietly())
	}
	close(j.stop)
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		for _, p := range g.participants {
			p.finishBelief(j)
		}
	}
	if !t.Exclusive {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, Check(j.history))...)
}

// forget stops asking the seats of a node that is dead.
func (j *checker) removeNode(n *node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		g.participants = slices.DeleteFunc(g.participants, func(p *participant) bool {
			if p.node == n {
				p.finishBelief(j)
			}
			return p.node == n
		})
	}
}

// called notes what a call at a node's wire was granted.
func (j *checker) recordCall(n *node, c Call) {
	if c.Method != "Acquire" && c.Method != "Renew" {
		return
	}
	base := n.wire.began.Sub(j.t.began)
	for i, o := range c.Outcomes {
		if o != backend.Granted || i >= len(c.Elections) {
			continue
		}
		term := uint64(0)
		if c.Method == "Renew" {
			term = c.Terms[i]
		}
		for _, l := range c.Granted {
			if l.Election == c.Elections[i] {
				term = l.Term
				j.record(Entry{Process: n.key, Election: l.Election, Kind: Granted, Term: term, From: base + c.Sent, To: base + c.Received})
			}
		}
		n.recordGrantSent(c.Elections[i], term, base+c.Sent)
	}
}

func eventEntry(process string, watcher int, at time.Duration, ev election.Event) Entry {
	return Entry{Process: process, Election: ev.Election, Kind: Told, Term: ev.Term, From: at, To: at, Watcher: watcher,
		State: ev.Kind, Leader: ev.Leader.Nonce, Leading: ev.Leading, Reason: ev.Reason, Coalesced: ev.Coalesced}
}

func processKey(id string, number int) string { return fmt.Sprintf("%s#%d", id, number) }
