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
type judge struct {
	t    *Trial
	pace atomic.Int64 // between two samples
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	groups  []*group
	history History
}

// A group is all the seats of one election.
type group struct {
	name  string
	seats []*seat
}

func newJudge(t *Trial) *judge {
	j := &judge{t: t, stop: make(chan struct{}), done: make(chan struct{})}
	j.pace.Store(int64(max(t.TTL/64, time.Millisecond)))
	go func() {
		defer close(j.done)
		for {
			select {
			case <-time.After(time.Duration(j.pace.Load())):
				j.sweep()
			case <-j.stop:
				return
			}
		}
	}()
	return j
}

func (j *judge) add(s *seat) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		if g.name == s.Name() {
			g.seats = append(g.seats, s)
			return
		}
	}
	j.groups = append(j.groups, &group{s.Name(), []*seat{s}})
}

// sweep asks everybody whether they lead. That two say yes is a proof of overlap
// only if the first still does after the second has been asked; so it is.
func (j *judge) sweep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		var first *seat
		for _, s := range g.seats {
			if s.node.dead.Load() {
				continue
			}
			before := j.t.now()
			l := s.Leadership()
			if l == nil {
				continue
			}
			after := j.t.now()
			j.believes(s, l.Term, before, after)
			if first == nil {
				first = s
			} else if j.t.Exclusive && first.Leading() {
				j.t.complain(broken("S1", "two leaders never", "%s and %s both lead %q at %v", first.node.key, s.node.key, g.name, after))
			}
		}
	}
}

// believes notes that a seat led between before and after. The interval noted
// lies within the true one.
func (j *judge) believes(s *seat, term uint64, before, after time.Duration) {
	if b := s.belief; b != nil && b.Term == term {
		b.To = max(b.To, before)
	} else {
		s.settle(j)
		s.belief = &Entry{Process: s.node.key, Election: s.Name(), Kind: Believed, Term: term, From: after, To: after}
	}
	n := s.node
	sent, ok := n.sentAt(s.Name(), term)
	if deadline := sent + n.ttl - n.clockMargin; ok && before > deadline {
		j.t.complain(broken("S2", "trusted until at most the start of the successful call + TTL − clock margin",
			"%s leads %q at %v; its last granted call was sent at %v, so its deadline was %v", n.key, s.Name(), before, sent, deadline))
	}
}

// note adds to the history.
func (j *judge) note(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = append(j.history, e)
}

// settle moves a finished belief to the history.
func (s *seat) settle(j *judge) {
	if s.belief != nil {
		j.history = append(j.history, *s.belief)
		s.belief = nil
	}
}

// verdict waits until watchers have been told everything, closes the managers in
// order and checks the history.
func (j *judge) verdict() error {
	t := j.t
	var errs []error
	for _, g := range j.groups {
		for _, s := range g.seats {
			if s.node.dead.Load() || s.left {
				continue
			}
			var state election.Event
			told := func() bool {
				state = s.Current()
				last, ok := s.last()
				return ok && last.State == state.Kind && last.Leader == state.Leader.Nonce && (state.Kind != election.Elected || last.Term == state.Term)
			}
			if err := t.until(t.TTL/2, "the last event to equal the final state", told); err != nil {
				last, _ := s.last()
				errs = append(errs, broken("S10", "the last event equals the final state", "%s in %q: told %v; but the state is %v", s.node.key, s.Name(), last, state))
			}
		}
	}
	for _, n := range t.nodes {
		errs = append(errs, n.end())
	}
	close(j.stop)
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		for _, s := range g.seats {
			s.settle(j)
		}
	}
	if !t.Exclusive {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, Check(j.history))...)
}

// forget stops asking the seats of a node that is dead.
func (j *judge) forget(n *node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups {
		g.seats = slices.DeleteFunc(g.seats, func(s *seat) bool {
			if s.node == n {
				s.settle(j)
			}
			return s.node == n
		})
	}
}

// called notes what a call at a node's wire was granted.
func (j *judge) called(n *node, c Call) {
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
				j.note(Entry{Process: n.key, Election: l.Election, Kind: Granted, Term: term, From: base + c.Sent, To: base + c.Received})
			}
		}
		n.sent(c.Elections[i], term, base+c.Sent)
	}
}

func eventEntry(process string, watcher int, at time.Duration, ev election.Event) Entry {
	return Entry{Process: process, Election: ev.Election, Kind: Told, Term: ev.Term, From: at, To: at, Watcher: watcher,
		State: ev.Kind, Leader: ev.Leader.Nonce, Leading: ev.Leading, Reason: ev.Reason, Coalesced: ev.Coalesced}
}

func nodeKey(id string, number int) string { return fmt.Sprintf("%s#%d", id, number) }
