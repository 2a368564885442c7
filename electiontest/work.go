package electiontest

import (
	"slices"
	"sync"

	"github.com/go-election/go-election/election"
)

// work is what was done under the leaderships of one election.
type work struct {
	running map[uint64]int // pieces that go on, by term
	terms   []uint64
}

// Work notes that a piece of work begins under a leadership, and when done is called,
// that it has ended. Call it where your job begins. The test fails if a later leadership's
// work has begun before, or if work of another leadership of the same election still goes
// on: a job that ignores its context for too long, or that nobody waits for, is found
// so. That the leadership has just ended is no failure: no job can help that.
func (g *Group) Work(lead *election.Leadership) (done func()) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	name, term := lead.Election(), lead.Term
	w := g.work[name]
	if w == nil {
		w = &work{running: map[uint64]int{}}
		g.work[name] = w
	}
	for other := range w.running {
		if other != term {
			g.t.Errorf("electiontest: %q: work of term %d begins while that of term %d goes on", name, term, other)
		}
	}
	if len(w.terms) > 0 && slices.Max(w.terms) > term {
		g.t.Errorf("electiontest: %q: work of term %d begins after that of term %d", name, term, slices.Max(w.terms))
	}
	w.terms = append(w.terms, term)
	w.running[term]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if w.running[term]--; w.running[term] == 0 {
			delete(w.running, term)
		}
	})
}

// Worked returns the term of each piece of work that was begun, in order.
func (g *Group) Worked(name string) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.work[name]; w != nil {
		return slices.Clone(w.terms)
	}
	return nil
}
