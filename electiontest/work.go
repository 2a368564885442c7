package electiontest

import (
	"slices"
	"sync"

	"github.com/go-election/go-election/election"
)

// work is the work of one election.
type work struct {
	running map[uint64]int // pieces of work that have not ended, by term
	terms   []uint64       // of the pieces of work, in the order in which they began
}

// Work records that a piece of work begins under a leadership; done records its end. Call Work where your job
// begins. The test fails if work of a later leadership has begun before, or if work of another leadership of
// the same election has not ended. This finds jobs that ignore the end of their context, and jobs that the
// lead function does not wait for. Work may begin just after the leadership has ended: no job can avoid that.
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
			const text = "electiontest: %q: work of term %d begins before that of term %d has ended"
			g.t.Errorf(text, name, term, other)
		}
	}
	if last := slices.Max(append(w.terms, term)); last > term {
		g.t.Errorf("electiontest: %q: work of term %d begins after that of term %d", name, term, last)
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

// Worked returns the term of each piece of work, in the order in which they began.
func (g *Group) Worked(name string) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.work[name]; w != nil {
		return slices.Clone(w.terms)
	}
	return nil
}
