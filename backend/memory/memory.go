// Package memory is an election store inside one process: for tests, for
// examples, and as the executable specification of package backend.
//
// It has no clock to decide by. A held lease is taken over by a challenger that
// has watched it unchanged for the holder's TTL, as on MySQL. Nothing is ever
// lost, so an election without a record is free at once.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Store holds leases. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	began    time.Time                 // an Age in the maps counts from here: it is the moment of the last writing
	records  map[string]backend.Record // by election
	members  map[string]backend.Member // by nonce
	notifier backend.Notifier
}

// New returns an empty store.
func New() *Store {
	return &Store{began: time.Now(), records: map[string]backend.Record{}, members: map[string]backend.Member{}}
}

// Backend returns a new client of the store, for one manager.
func (s *Store) Backend() backend.Backend { return &client{Store: s} }

// A client is one process's access.
type client struct {
	*Store
	guard backend.SingleOwner
}

// each does a call of the candidate with this nonce, item by item, alone in the store.
func each[T any](ctx context.Context, c *client, verb, nonce string, items iter.Seq[T], do func(T)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.guard.Enter(ctx, nonce); err != nil {
		return fmt.Errorf("memory: %s: %w", verb, err)
	}
	for item := range items {
		do(item)
	}
	return nil
}

// read returns a record as this client sees it, vacant if there is none. What others
// hold must be watched for their TTL; what is vacant or its own, not at all.
func (c *client) read(election string) backend.Record {
	r := c.records[election]
	r.Election, r.Age, r.ObserveFor, r.History = election, time.Since(c.began)-r.Age, r.TTL, slices.Clone(r.History)
	if r.Holder.Nonce == c.guard.Nonce() {
		r.ObserveFor = 0
	}
	return r
}

// write keeps a record, with a fresh heartbeat, and returns the lease as it now stands.
func (c *client) write(r backend.Record) backend.Lease {
	r.Heartbeat, r.Age = rand.Uint64()|1, time.Since(c.began) // never 0, which stands for "not seen"
	c.records[r.Election] = r
	c.notifier.Notify()
	return c.read(r.Election).Lease
}

func (c *client) Acquire(ctx context.Context, bids []backend.Bid) (answers []backend.Answer, err error) {
	err = each(ctx, c, "acquire", bids[0].Candidate.Nonce, slices.Values(bids), func(b backend.Bid) {
		r := c.read(b.Election)
		term, err := backend.NextTerm(r.Term, false, b.MinTerm, time.Now())
		leftover := r.Holder.Nonce == b.Candidate.Nonce // of its own: granted anew
		switch {
		case !leftover && !r.Unchanged(b.Expected), r.MovedTo != b.Expected.MovedTo:
			answers = append(answers, backend.Answer{Lease: r.Lease, Outcome: backend.Refused})
		case err != nil:
			answers = append(answers, backend.Answer{Err: fmt.Errorf("memory: acquire %q: %w", b.Election, err)})
		default:
			r.EndLeadership(backend.Failed, time.Now()) // if somebody holds it
			r.Holder, r.Term, r.TTL, r.Renew = backend.CleanCandidate(b.Candidate), term, b.TTL, b.Renew
			r.Request, r.Elected = backend.Request{}, time.Now().UTC()
			answers = append(answers, backend.Answer{Lease: c.write(r), Outcome: backend.Granted, ValidFor: b.TTL})
		}
	})
	return answers, err
}

func (c *client) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return c.renew(ctx, "renew", held, false)
}

func (c *client) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return c.renew(ctx, "mark", held, true)
}

// renew extends leases. A move also writes their marks.
func (c *client) renew(ctx context.Context, verb string, held []backend.Held, move bool) (answers []backend.Answer, err error) {
	err = each(ctx, c, verb, held[0].Holder.Nonce, slices.Values(held), func(l backend.Held) {
		r := c.read(l.Election)
		if r.Holder.Nonce != l.Holder.Nonce || r.Term != l.Term || r.Request.Kind == backend.Depose {
			answers = append(answers, backend.Answer{Lease: r.Lease, Outcome: backend.Refused})
			return
		}
		if move {
			r.MovedTo, r.MovedFrom = l.MovedTo, l.MovedFrom
		}
		answers = append(answers, backend.Answer{Lease: c.write(r), Outcome: backend.Granted, ValidFor: r.TTL})
	})
	return answers, err
}

func (c *client) Release(ctx context.Context, held []backend.Held) error {
	return each(ctx, c, "release", "", slices.Values(held), func(l backend.Held) {
		r := c.read(l.Election)
		if !r.Vacant() && r.Holder.Nonce == c.guard.Nonce() && (l.Term == 0 || l.Term == r.Term) {
			r.EndLeadership(l.End, time.Now())
			c.write(r)
		}
	})
}

func (c *client) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	err = each(ctx, c, "observe", "", slices.Values(seen), func(l backend.Lease) {
		if r := c.read(l.Election); l.Heartbeat == 0 || r.Differs(l) {
			changed = append(changed, r.Lease)
		}
	})
	return changed, err
}

func (c *client) Listen(ctx context.Context, seen []backend.Lease) error {
	return c.notifier.Listen(ctx, seen, c.Observe)
}

func (c *client) Request(ctx context.Context, requests []backend.Request) error {
	var stale error
	err := each(ctx, c, "ask", "", slices.Values(requests), func(w backend.Request) {
		r := c.records[w.Election] // heartbeat and Age stay
		if w.Term == 0 || w.Term != r.Term {
			stale = fmt.Errorf("memory: ask: election %q has term %d, not %d: %w", w.Election, r.Term, w.Term, backend.ErrStale)
			return
		}
		if r.Request = w; w.Kind == "" {
			r.Request = backend.Request{}
		}
		c.records[w.Election] = r
		c.notifier.Notify()
	})
	return cmp.Or(err, stale)
}

func (c *client) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	err = each(ctx, c, "list", "", maps.Keys(c.records), func(election string) { list = append(list, c.read(election)) })
	return backend.Page(list, from, limit, func(r backend.Record) string { return r.Election }), err
}

func (c *client) Announce(ctx context.Context, m backend.Member) error {
	m.Age = time.Since(c.began)
	return each(ctx, c, "announce", m.Nonce, slices.Values([]backend.Member{m}), func(m backend.Member) {
		maps.DeleteFunc(c.members, func(_ string, o backend.Member) bool { return m.Age-o.Age > 2*o.TTL })
		c.members[m.Nonce] = m
	})
}

func (c *client) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	err = each(ctx, c, "members", "", maps.Values(c.members), func(m backend.Member) {
		if m.Age = time.Since(c.began) - m.Age; m.Age <= 2*m.TTL {
			list = append(list, m)
		}
	})
	return backend.Page(list, from, limit, func(m backend.Member) string { return m.Nonce }), err
}

func (c *client) Guarantees() backend.Guarantees {
	return backend.Guarantees{Name: "memory", MinTTL: time.Millisecond, Expiry: backend.ByChallengers, Push: true, Marks: true,
		Exclusive: true, DurableTerms: true}
}

func (c *client) Close() error {
	c.guard.Close()
	return nil
}

func init() {
	process := New() // all that is opened by name: candidates that are configured alike must meet
	backend.Register("memory", func(_ context.Context, decode func(any) error) (backend.Backend, error) {
		if err := decode(new(struct{})); err != nil { // there is nothing to configure
			return nil, err
		}
		return process.Backend(), nil
	})
}
