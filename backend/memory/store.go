package memory

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

func init() {
	// What is opened by name is one store for the whole process: candidates that
	// are configured alike must meet.
	process := New(nil)
	backend.Register("memory", func(_ context.Context, decode func(any) error) (backend.Backend, error) {
		if err := decode(new(struct{})); err != nil {
			return nil, err
		}
		return process.Backend(), nil
	})
}

// Options configures a Store. Nil means all defaults.
type Options struct {
	// Poll makes a store that must be read: Guarantees has Push false and Poll
	// true. Default false: Listen hears of every change.
	Poll bool

	// Now is the store's clock, for ages, history and new terms; it decides
	// nothing else. Default: time.Now.
	Now func() time.Time
}

// A Store holds leases. It is safe for concurrent use.
type Store struct {
	Options
	mu      sync.Mutex
	records map[string]*record
	members map[string]backend.Member
	seen    map[string]time.Time // when each member announced itself last
	changed chan struct{}        // closed and replaced at every change
}

type record struct {
	backend.Record
	written time.Time
}

// New returns an empty store.
func New(o *Options) *Store {
	s := &Store{records: map[string]*record{}, members: map[string]backend.Member{}, seen: map[string]time.Time{}, changed: make(chan struct{})}
	if o != nil {
		s.Options = *o
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return s
}

// Backend returns a new client of the store, for one manager.
func (s *Store) Backend() backend.Backend { return &client{Store: s} }

// record returns the election's record; one that is not there yet is vacant.
func (s *Store) record(name string) *record {
	r := s.records[name]
	if r == nil {
		r = &record{written: s.Now()}
		r.Election = name
		s.records[name] = r
	}
	return r
}

// view is the lease as this client sees it: what is left of its own is not watched.
func (c *client) view(r *record) backend.Lease {
	l := r.Lease
	l.Age = c.Now().Sub(r.written)
	if l.Holder.Nonce == c.guard.Nonce() {
		l.Watch = 0
	}
	return l
}

// end closes the present reign, if there is one, and notes it in the history.
func (s *Store) end(r *record, how backend.End) {
	if !r.Vacant() {
		r.History = backend.Remember(r.History, backend.Reign{Term: r.Term, ID: r.Holder.ID, From: r.Elected, To: s.Now().UTC(), End: how})
		r.End, r.LastID, r.LastNonce, r.Elected = how, r.Holder.ID, r.Holder.Nonce, time.Time{}
	}
}

// write gives the lease a fresh beat and wakes the listeners.
func (s *Store) write(r *record) {
	r.Beat, r.written = rand.Uint64()|1, s.Now() // never 0, which stands for "not seen"
	s.tell()
}

func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (c *client) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: "memory", MinTTL: time.Millisecond, Expiry: backend.ByChallengers, Push: !c.Poll, Poll: c.Poll,
		Moves: true, Exclusive: true, DurableTerms: true, ForeignSilence: true, ForeignPriority: true, ForeignNomination: true,
	}
}
