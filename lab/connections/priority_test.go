package connections

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// rankTTL leaves a busy machine four seconds to start three processes.
const rankTTL = 12 * time.Second

// ranks are processes of different priorities on a real store, and who has worked.
type ranks struct {
	*testing.T
	store

	mu      sync.Mutex
	history string // who was elected, in order
	working int
	term    uint64
}

// start starts a process that leads whenever it can.
func (r *ranks) start(id string, priority int) *election.Manager {
	r.Helper()
	b, err := r.open(r.addr)
	testbed.NoError(r, err)
	r.Cleanup(func() { b.Close() })
	m, err := election.New(b, election.Options{ID: id, TTL: rankTTL, Priority: priority, Reclaim: rankTTL})
	testbed.NoError(r, err)
	r.Cleanup(func() { m.Close(context.Background()) })
	e, err := m.Join("jobs")
	if err == nil {
		err = e.Lead(func(ctx context.Context, lead *election.Leadership) error {
			r.works(id, 1, lead.Term)
			<-ctx.Done()
			r.works(id, -1, lead.Term)
			return nil
		})
	}
	testbed.NoError(r, err)
	return m
}

// works notes that a process begins to work, or ends.
func (r *ranks) works(id string, more int, term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working += more; r.working > 1 {
		r.Errorf("%s works in term %d, and another one as well", id, term)
	}
	if more < 0 {
		return
	}
	if term <= r.term {
		r.Errorf("%s works in term %d after term %d", id, term, r.term)
	}
	r.history, r.term = r.history+id, term
}

// leads waits for this history of leaders.
func (r *ranks) leads(history string) {
	r.Helper()
	testbed.Eventually(r, patience, history+" lead, one after the other", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !strings.HasPrefix(history, r.history) {
			r.Fatalf("elected were %s, want %s", r.history, history)
		}
		if r.history != history {
			return fmt.Errorf("it was %q until now", r.history)
		}
		return nil
	})
}

// Of three that start together the highest leads. Another one leads while it is away, and it gets the leadership back in
// order.
func TestTheHighestLeadsOnEveryStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s store) {
		r := &ranks{T: t, store: s}
		r.start("c", 0)
		r.start("b", 5)
		a := r.start("a", 10)
		r.leads("a")

		testbed.NoError(t, a.Close(t.Context()))
		r.leads("ab")
		r.start("a", 10)
		r.leads("aba")
	})
}
