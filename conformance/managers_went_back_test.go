package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// An editedStore shows leases otherwise than they are, as a restored store would.
type editedStore struct {
	backend.Backend

	mu        sync.Mutex
	edit      func(backend.Lease) backend.Lease
	originals map[backend.Lease]backend.Lease // by edited lease
}

// set makes Observe return edit's version of every lease. A nil edit changes no lease.
func (s *editedStore) set(edit func(backend.Lease) backend.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit, s.originals = edit, map[backend.Lease]backend.Lease{}
}

func (s *editedStore) Observe(ctx context.Context, leases []backend.Lease) ([]backend.Lease, error) {
	changed, err := s.Backend.Observe(ctx, s.asStored(leases))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range changed {
		if s.edit != nil {
			changed[i] = s.edit(l)
			s.originals[withoutAge(changed[i])] = l
		}
	}
	return changed, err
}

func (s *editedStore) Listen(ctx context.Context, leases []backend.Lease) error {
	return s.Backend.Listen(ctx, s.asStored(leases))
}

// asStored replaces edited leases by the originals, so that the store gets the leases that it returned.
func (s *editedStore) asStored(leases []backend.Lease) []backend.Lease {
	leases = slices.Clone(leases)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range leases {
		if original, ok := s.originals[withoutAge(l)]; ok && s.edit != nil {
			leases[i] = original
		}
	}
	return leases
}

// withoutAge is a lease without its Age, which grows by itself.
func withoutAge(l backend.Lease) backend.Lease {
	l.Age = 0
	return l
}

func eventsTermGoesBack(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	view, open := &editedStore{}, t.Store.Open
	t.Store.Open = func(t testing.TB) backend.Backend {
		view.Backend = open(t)
		return view
	}
	o := t.participant("observer", "jobs", func(o *election.Options) { o.Observer = true })
	t.Store.Open = open
	t.waitUntil(t.takeoverBound(), "the observer to know the leader", func() bool { _, _, ok := o.Leader(); return ok })
	term := a.Leadership().Term
	view.set(func(l backend.Lease) backend.Lease {
		if l.Term > 100 {
			l.Term -= 100
		}
		l.Version += "x"
		return l
	})
	t.waitUntil(2*t.TTL, "a notice that the store went back", func() bool {
		return o.hasEvent(func(e election.Event) bool {
			return e.Kind == election.Notice && e.Reason == election.ReasonWentBack
		})
	})
	t.sleep(t.TTL)
	for _, e := range o.events() {
		if e.Kind == election.Elected && e.Term < term {
			fail("expected no event with a term below %d, got %v", term, e)
		}
	}
	view.set(nil)
	t.waitUntil(2*t.TTL, "the observer to know the leader again", func() bool { _, at, ok := o.Leader(); return ok && at >= term })
}
