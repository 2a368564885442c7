// Package memory is an election store inside one process: for tests, for
// examples, and as the executable specification of package backend.
//
// It has no clock of its own to decide by. A held lease is taken over by a
// challenger that has watched it unchanged for the holder's TTL, exactly as on
// MySQL. Nothing is ever lost, so an election without a record is free at once.
// Listen hears of every change.
package memory

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

func init() {
	backend.Register("memory", func(_ context.Context, decode func(any) error) (backend.Backend, error) {
		var none struct{}
		return New(nil).Backend(), decode(&none)
	})
}

// Options configures a Store. Nil means all defaults.
type Options struct {
	// Poll makes the store one that must be read, without news (Guarantees
	// Push false, Poll true). Default false: Listen hears of every change.
	Poll bool

	// Now is the store's clock, for ages, history and new terms; it decides
	// nothing else. Nil: time.Now.
	Now func() time.Time
}

// A Store holds leases. It is safe for concurrent use.
type Store struct {
	poll bool
	now  func() time.Time

	mu      sync.Mutex
	records map[string]*record
	members map[string]member
	changed chan struct{} // closed and replaced at every change
}

type record struct {
	backend.Record
	written time.Time
}

type member struct {
	backend.Member
	at time.Time
}

// New returns an empty store.
func New(o *Options) *Store {
	s := &Store{now: time.Now, records: map[string]*record{}, members: map[string]member{}, changed: make(chan struct{})}
	if o != nil {
		s.poll = o.Poll
		if o.Now != nil {
			s.now = o.Now
		}
	}
	return s
}

// Backend returns a new client of the store, for one manager.
func (s *Store) Backend() backend.Backend { return &client{store: s} }

type client struct {
	store  *Store
	nonce  string // the one this client serves; set by the first call that has one
	closed bool
}

// enter locks the store for one call of the candidate with this nonce.
func (c *client) enter(ctx context.Context, nonce string) (*Store, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("memory: %w", err)
	}
	c.store.mu.Lock()
	if c.nonce == "" {
		c.nonce = nonce
	}
	switch {
	case c.closed:
		c.store.mu.Unlock()
		return nil, nil, fmt.Errorf("memory: %w", backend.ErrClosed)
	case nonce != "" && nonce != c.nonce:
		c.store.mu.Unlock()
		return nil, nil, fmt.Errorf("memory: %w: this Backend serves another manager; give each its own", backend.ErrInvalid)
	}
	return c.store, c.store.mu.Unlock, nil
}

func (c *client) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	s, leave, err := c.enter(ctx, bids[0].Candidate.Nonce)
	if err != nil {
		return nil, err
	}
	defer leave()
	answers := make([]backend.Answer, len(bids))
	for i, b := range bids {
		r := s.record(b.Election)
		mine := r.Holder.Nonce == b.Candidate.Nonce // a leftover of ours: granted anew
		if !mine && !r.Unchanged(b.Over) {
			answers[i] = backend.Answer{Lease: s.view(r), Outcome: backend.Refused}
			continue
		}
		term, err := backend.NextTerm(r.Term, false, b.Floor, s.now())
		if err != nil {
			answers[i].Err = fmt.Errorf("memory: acquire %q: %w", b.Election, err)
			continue
		}
		s.end(r, backend.Failed)
		r.Holder, r.Term, r.TTL, r.Renew, r.Watch = b.Candidate, term, b.TTL, b.Renew, b.TTL
		r.Wish, r.Elected = backend.Wish{}, s.now().UTC()
		s.write(r)
		answers[i] = backend.Answer{Lease: s.view(r), Outcome: backend.Granted, Trust: b.TTL}
	}
	return answers, nil
}

func (c *client) Renew(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
	s, leave, err := c.enter(ctx, held[0].Holder.Nonce)
	if err != nil {
		return nil, err
	}
	defer leave()
	answers := make([]backend.Answer, len(held))
	for i, l := range held {
		r := s.record(l.Election)
		answers[i].Outcome = backend.Refused
		if r.Holder.Nonce == l.Holder.Nonce && r.Term == l.Term && r.Wish.Kind != backend.Depose {
			r.TTL, r.Renew, r.Watch = l.TTL, l.Renew, l.TTL
			s.write(r)
			answers[i].Outcome, answers[i].Trust = backend.Granted, l.TTL
		}
		answers[i].Lease = s.view(r)
	}
	return answers, nil
}

func (c *client) Release(ctx context.Context, held []backend.Lease) error {
	s, leave, err := c.enter(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	for _, l := range held {
		r := s.record(l.Election)
		if c.nonce != "" && r.Holder.Nonce == c.nonce && (l.Term == 0 || l.Term == r.Term) {
			s.end(r, l.End)
			r.Holder, r.TTL, r.Renew, r.Watch = backend.Candidate{}, 0, 0, 0
			s.write(r)
		}
	}
	return nil
}

func (c *client) Observe(ctx context.Context, seen []backend.Lease, _ string) (changed []backend.Lease, next string, err error) {
	s, leave, err := c.enter(ctx, "")
	if err != nil {
		return nil, "", err
	}
	defer leave()
	for _, l := range seen {
		if r := s.record(l.Election); l.Beat == 0 || r.differs(l) {
			changed = append(changed, s.view(r))
		}
	}
	return changed, "", nil
}

func (c *client) Listen(ctx context.Context, seen []backend.Lease, _ string) error {
	s := c.store
	for {
		s.mu.Lock()
		news := s.changed
		old := slices.ContainsFunc(seen, func(l backend.Lease) bool { return s.record(l.Election).differs(l) })
		s.mu.Unlock()
		if old {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *client) Ask(ctx context.Context, wishes []backend.Wish) (err error) {
	s, leave, err := c.enter(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	for _, w := range wishes {
		r := s.record(w.Election)
		if r.Term != w.Term {
			err = fmt.Errorf("memory: ask: election %q has term %d, not %d: %w", w.Election, r.Term, w.Term, backend.ErrStale)
			continue
		}
		r.Wish = w
		if w.Kind == "" {
			r.Wish = backend.Wish{}
		}
		s.tell()
	}
	return err
}

func (c *client) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	s, leave, err := c.enter(ctx, "")
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []backend.Record
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		if r := s.records[name]; name >= from && r.Term > 0 && len(list) < limit {
			list = append(list, backend.Record{Lease: s.view(r), Elected: r.Elected, History: slices.Clone(r.History)})
		}
	}
	return list, nil
}

func (c *client) Announce(ctx context.Context, m backend.Member) error {
	s, leave, err := c.enter(ctx, m.Nonce)
	if err != nil {
		return err
	}
	defer leave()
	s.members[m.Nonce] = member{m, s.now()}
	maps.DeleteFunc(s.members, func(_ string, m member) bool { return s.now().Sub(m.at) > 2*m.TTL })
	return nil
}

func (c *client) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	s, leave, err := c.enter(ctx, "")
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []backend.Member
	for _, nonce := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[nonce]
		if m.Age = s.now().Sub(m.at); nonce >= from && m.Age <= 2*m.TTL && len(list) < limit {
			list = append(list, m.Member)
		}
	}
	return list, nil
}

func (c *client) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: "memory", MinTTL: time.Millisecond, Expiry: backend.ByChallengers,
		Push: !c.store.poll, Poll: c.store.poll, Exclusive: true, DurableTerms: true,
		ForeignSilence: true, ForeignPriority: true, ForeignNomination: true,
	}
}

func (c *client) Close() error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.closed = true
	return nil
}

// record returns the election's record; one that is not there yet is vacant.
func (s *Store) record(name string) *record {
	r := s.records[name]
	if r == nil {
		r = &record{written: s.now()}
		r.Election = name
		s.records[name] = r
	}
	return r
}

// differs reports whether Observe has something to tell to who saw l.
func (r *record) differs(l backend.Lease) bool {
	return !r.Unchanged(l) || r.Holder != l.Holder || r.Wish != l.Wish
}

func (s *Store) view(r *record) backend.Lease {
	l := r.Lease
	l.Age = s.now().Sub(r.written)
	return l
}

// end closes the present reign, if there is one, and notes it in the history.
func (s *Store) end(r *record, how backend.End) {
	if r.Vacant() {
		return
	}
	reign := backend.Reign{Term: r.Term, ID: r.Holder.ID, From: r.Elected, To: s.now().UTC(), End: how}
	r.History = slices.Insert(r.History, 0, reign)[:min(len(r.History)+1, backend.MaxHistory)]
	r.End, r.LastID, r.LastNonce, r.Elected = how, r.Holder.ID, r.Holder.Nonce, time.Time{}
}

// write gives the lease a fresh beat and wakes the listeners.
func (s *Store) write(r *record) {
	r.Beat, r.written = rand.Uint64()|1, s.now() // never 0, which stands for "not seen"
	s.tell()
}

func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
