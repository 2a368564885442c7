package conformance

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
)

// A checker records the history of a case's managers: which of them lead, and the calls that succeeded. It
// samples the managers at every event and many times in a TTL. At the end [Check] checks the history.
type checker struct {
	t        *Trial
	interval atomic.Int64 // between two samples
	stop     chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	groups  map[string][]*participant // by election
	history History
	sent    map[Leadership]time.Duration // when the last granted call of each was sent
}

func newChecker(t *Trial) *checker {
	c := &checker{
		t: t, stop: make(chan struct{}), done: make(chan struct{}),
		groups: map[string][]*participant{}, sent: map[Leadership]time.Duration{},
	}
	c.interval.Store(int64(max(t.TTL/64, time.Millisecond)))
	go func() {
		defer close(c.done)
		for {
			select {
			case <-time.After(time.Duration(c.interval.Load())):
				c.sample()
			case <-c.stop:
				return
			}
		}
	}()
	return c
}

func (c *checker) add(p *participant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[p.Name()] = append(c.groups[p.Name()], p)
}

// sample asks all participants whether they lead. Two positive answers prove an overlap only if the first
// participant still leads after the second has answered, so sample asks the first one again.
func (c *checker) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, participants := range c.groups {
		var first *participant
		for _, p := range participants {
			if p.node.dead.Load() {
				continue
			}
			before := c.t.now()
			l := p.Leadership()
			if l == nil {
				continue
			}
			after := c.t.now()
			c.recordBelief(p, l.Term, before, after)
			if first == nil {
				first = p
			} else if c.t.Exclusive && first.Leading() {
				c.t.addError(violation("S1", "no election has two leaders",
					"%s and %s both lead %q at %v", first.node.key, p.node.key, name, after))
			}
		}
	}
}

// recordBelief records that a participant led between before and after. The recorded
// interval lies within the true one.
func (c *checker) recordBelief(p *participant, term uint64, before, after time.Duration) {
	if b := p.belief; b != nil && b.Term == term {
		b.To = max(b.To, before)
	} else {
		p.finishBelief(c)
		p.belief = &Entry{Process: p.node.key, Election: p.Name(), Kind: Believed, Term: term}
		p.belief.From, p.belief.To = after, after
	}

	sent, ok := c.sent[p.belief.Leadership()]
	if deadline := sent + p.node.trusted(); ok && before > deadline {
		c.t.addError(violation("S2", "trust ends by the start of the granted call + TTL − clock margin",
			"%v; it sent its last granted call at %v, so its deadline was %v", p.belief, sent, deadline))
	}
}

// finishBelief moves the participant's belief to the history.
func (p *participant) finishBelief(c *checker) {
	if p.belief != nil {
		c.history = append(c.history, *p.belief)
		p.belief = nil
	}
}

// finish closes the managers and checks the history.
func (c *checker) finish() error {
	t := c.t
	var errs []error
	for _, n := range t.nodes {
		errs = append(errs, n.closeQuietly())
	}
	close(c.stop)
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, participants := range c.groups {
		for _, p := range participants {
			p.finishBelief(c)
		}
	}
	if !t.Exclusive {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, Check(c.history))...)
}

// recordCall records the grants, the renewals and the releases that have succeeded.
func (c *checker) recordCall(n *node, call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, base := EntryKind(call.Method), n.wire.Began.Sub(c.t.began)
	for i, name := range call.Elections {
		if !slices.Contains(steps, kind) || call.Outcome(i) != backend.Granted || call.Terms[i] == 0 {
			continue
		}
		e := Entry{Process: n.key, Election: name, Kind: kind, Term: call.Terms[i]}
		e.From, e.To = base+call.Sent, base+call.Received
		c.history = append(c.history, e)
		if e.Kind != Released {
			c.sent[e.Leadership()] = max(c.sent[e.Leadership()], e.From)
		}
	}
}
