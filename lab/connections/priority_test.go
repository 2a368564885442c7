package connections

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// rankTTL leaves three processes on a busy machine four seconds until they campaign, once they are connected.
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

// start starts processes that lead whenever they can. All of them are connected before the first one joins, and have joined
// before the first one campaigns.
func (r *ranks) start(priorities map[string]int) (all map[string]*election.Manager) {
	r.Helper()
	all = map[string]*election.Manager{}
	backends := map[string]backend.Backend{}
	for id := range priorities {
		b, err := r.open(r.addr)
		testbed.NoError(r, err)
		r.Cleanup(func() { b.Close() })
		_, err = b.List(r.Context(), "", 1)
		testbed.NoError(r, err)
		backends[id] = b
	}
	for id, b := range backends {
		all[id] = r.join(b, id, priorities[id])
	}
	for id, m := range all {
		r.campaign(id, m)
	}
	return all
}

func (r *ranks) join(b backend.Backend, id string, priority int) *election.Manager {
	r.Helper()
	m, err := election.New(b, election.Options{ID: id, TTL: rankTTL, Priority: priority, Reclaim: rankTTL})
	testbed.NoError(r, err)
	r.Cleanup(func() { m.Close(context.Background()) })
	_, err = m.Join("jobs")
	testbed.NoError(r, err)
	return m
}

func (r *ranks) campaign(id string, m *election.Manager) {
	r.Helper()
	testbed.NoError(r, m.Election("jobs").Lead(func(ctx context.Context, lead *election.Leadership) error {
		r.works(id, 1, lead.Term)
		<-ctx.Done()
		r.works(id, -1, lead.Term)
		return nil
	}))
}

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
		all := r.start(map[string]int{"a": 10, "b": 5, "c": 0})
		r.leads("a")

		testbed.NoError(t, all["a"].Close(t.Context()))
		r.leads("ab")
		r.start(map[string]int{"a": 10})
		r.leads("aba")
	})
}
