// Package memory is an election store inside one process. It is for tests and
// examples, and it is the executable specification of package backend.
//
//	store := memory.New()
//	m, err := election.New(store.Backend(), election.Options{}) // each manager needs its own Backend
//
// The store's clock decides nothing. A challenger takes a held lease over after it has
// observed the lease unchanged for the holder's TTL, as on MySQL. The store loses
// nothing while the process runs, so an election without a record is free at once.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/backend/single"
)

// A Store holds leases. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	created time.Time                        // from which Age counts, in the maps, up to the last write
	records map[string]backend.Record        // by election
	members map[backend.Nonce]backend.Member // by nonce
	changed chan struct{}                    // closed by the next change of a record
}

// New returns an empty store.
func New() *Store {
	return &Store{
		created: time.Now(), records: map[string]backend.Record{},
		members: map[backend.Nonce]backend.Member{}, changed: make(chan struct{}),
	}
}

// Backend returns a new client of the store, for one manager.
func (s *Store) Backend() backend.Backend { return &client{Store: s} }

// A client is the access of one manager to the store.
type client struct {
	*Store
	owner single.Owner
}

// each runs do for every item of a call, under the store's mutex. nonce is the candidate's; "": it has none.
func each[T any](ctx context.Context, c *client, nonce backend.Nonce, items iter.Seq[T], do func(T)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.owner.Enter(ctx, nonce); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	for item := range items {
		do(item)
	}
	return nil
}

// read returns the record for this client, vacant if there is none. The client must observe a
// lease of another holder for its TTL before it bids, but not a vacant lease or its own.
func (c *client) read(election string) backend.Record {
	r := c.records[election]
	r.Election, r.Version, r.History = election, cmp.Or(r.Version, "none"), slices.Clone(r.History)
	r.Age, r.ObserveFor = time.Since(c.created)-r.Age, r.TTL
	if r.Holder.Nonce == c.owner.Nonce() {
		r.ObserveFor = 0
	}
	return r
}

// write stores the record with a fresh Version, and returns the answer to its holder.
func (c *client) write(r backend.Record) backend.Answer {
	r.Version, r.Age = strconv.FormatUint(rand.Uint64(), 36), time.Since(c.created)
	c.put(r)
	return backend.Answer{Lease: c.read(r.Election).Lease, Outcome: backend.Granted, ValidFor: r.TTL}
}

// put stores the record as it is, and wakes all listeners.
func (c *client) put(r backend.Record) {
	c.records[r.Election] = r
	close(c.changed)
	c.changed = make(chan struct{})
}

// Acquire grants a bid if the lease is as the bidder expects it, or if the bidder already holds it. In both
// cases the grant has a new term. It refuses a bid that does not expect the seal (MovedTo).
func (c *client) Acquire(ctx context.Context, bids []backend.Bid) (answers []backend.Answer, err error) {
	err = each(ctx, c, bids[0].Candidate.Nonce, slices.Values(bids), func(b backend.Bid) {
		r := c.read(b.Election)
		term, err := backend.NextTerm(r.Term, false, b.MinTerm, time.Now())
		own := r.Holder.Nonce == b.Candidate.Nonce
		switch {
		case !own && !r.Unchanged(b.Expected), r.MovedTo != b.Expected.MovedTo:
			answers = append(answers, backend.Answer{Lease: r.Lease, Outcome: backend.Refused})
		case err != nil:
			answers = append(answers, backend.Answer{Err: fmt.Errorf("memory: %q: %w", b.Election, err)})
		default:
			endLeadership(&r, backend.Failed)
			r.Holder, r.Term, r.TTL, r.Renew = clean.Candidate(b.Candidate), term, b.TTL, b.Renew
			r.Request, r.Elected = backend.Request{}, time.Now().UTC().Truncate(time.Microsecond)
			answers = append(answers, c.write(r))
		}
	})
	return answers, err
}

func (c *client) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return c.renew(ctx, held, false)
}

func (c *client) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return c.renew(ctx, held, true)
}

// renew extends leases that are still held in the same term. With mark it also
// writes the marks of a migration.
func (c *client) renew(
	ctx context.Context, held []backend.Held, mark bool,
) (answers []backend.Answer, err error) {
	err = each(ctx, c, held[0].Holder.Nonce, slices.Values(held), func(h backend.Held) {
		r := c.read(h.Election)
		if r.Holder.Nonce != h.Holder.Nonce || r.Term != h.Term || r.Request.Kind == backend.Depose {
			answers = append(answers, backend.Answer{Lease: r.Lease, Outcome: backend.Refused})
			return
		}
		if mark {
			r.MovedTo, r.MovedFrom = h.MovedTo, h.MovedFrom
		}
		answers = append(answers, c.write(r))
	})
	return answers, err
}

// Release ends the leases that this client holds in the given term, or in any term
// if that is 0. It leaves all others alone.
func (c *client) Release(ctx context.Context, held []backend.Held) error {
	return each(ctx, c, "", slices.Values(held), func(h backend.Held) {
		r := c.read(h.Election)
		if !r.Vacant() && r.Holder.Nonce == c.owner.Nonce() && (h.Term == 0 || h.Term == r.Term) {
			endLeadership(&r, h.End)
			c.write(r)
		}
	})
}

// endLeadership ends the present leadership, if there is one: the lease becomes vacant, and the record says
// who held it last and how that ended. Term, request and marks stay.
func endLeadership(r *backend.Record, how backend.End) {
	if r.Vacant() {
		return
	}
	last := backend.Leadership{Term: r.Term, ID: r.Holder.ID, From: r.Elected}
	r.History = clean.Remember(r.History, last, how, time.Now(), r.ExpiredFor())
	r.End, r.LastID = how, r.Holder.ID
	r.Holder, r.TTL, r.Renew, r.ObserveFor, r.Elected = backend.Candidate{}, 0, 0, 0, time.Time{}
}

func (c *client) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	err = each(ctx, c, "", slices.Values(seen), func(l backend.Lease) {
		if r := c.read(l.Election); l.Version == "" || r.Differs(l) {
			changed = append(changed, r.Lease)
		}
	})
	return changed, err
}

// Listen observes at once, and again after each change of a record, until a lease is not as it was seen. A
// change while it observes is followed by one more look.
func (c *client) Listen(ctx context.Context, seen []backend.Lease) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()

		if news, err := c.Observe(ctx, seen); err != nil || len(news) > 0 {
			return cmp.Or(ctx.Err(), err)
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Request writes requests beside leases. It does not go through write, because a
// request must not look like a renewal: Version and Age stay.
func (c *client) Request(ctx context.Context, requests []backend.Request) error {
	var stale error
	err := each(ctx, c, "", slices.Values(requests), func(q backend.Request) {
		r := c.records[q.Election]
		if q.Term == 0 || q.Term != r.Term {
			stale = fmt.Errorf("memory: %q is in term %d: %w", q.Election, r.Term, backend.ErrStale)
			return
		}
		if r.Request = q; q.Kind == "" { // the empty kind withdraws a request
			r.Request = backend.Request{}
		}
		c.put(r)
	})
	return cmp.Or(err, stale)
}

func (c *client) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	err = each(ctx, c, "", maps.Keys(c.records), func(name string) { list = append(list, c.read(name)) })
	return page.Cut(list, from, limit, func(r backend.Record) string { return r.Election }), err
}

// Announce stores the member, and deletes those that have not announced themselves for two TTLs.
func (c *client) Announce(ctx context.Context, m backend.Member) error {
	m.Age = time.Since(c.created)
	gone := func(_ backend.Nonce, o backend.Member) bool { return m.Age-o.Age > 2*o.TTL }
	return each(ctx, c, m.Nonce, slices.Values([]backend.Member{m}), func(m backend.Member) {
		maps.DeleteFunc(c.members, gone)
		c.members[m.Nonce] = m
	})
}

func (c *client) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	err = each(ctx, c, "", maps.Values(c.members), func(m backend.Member) {
		if m.Age = time.Since(c.created) - m.Age; m.Age <= 2*m.TTL {
			list = append(list, m)
		}
	})
	return page.Cut(list, from, limit, func(m backend.Member) string { return string(m.Nonce) }), err
}

func (c *client) Guarantees() backend.Guarantees {
	return backend.Guarantees{Name: "memory", MinTTL: time.Millisecond, Expiry: backend.ByChallengers,
		Push: true, Exclusive: true, DurableTerms: true}
}

func (c *client) Close() error {
	c.owner.Close()
	return nil
}

func init() {
	s := New() // opened by name, all managers of the process get this store, so that they meet
	backend.Register("memory", struct{}{}, func(struct{}) (*client, error) { return &client{Store: s}, nil })
}
