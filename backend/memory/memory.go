// Package memory is an election store inside one process: for tests, for
// examples, and as the executable specification of package backend.
//
// It has no clock to decide by. A held lease is taken over by a challenger that
// has watched it unchanged for the holder's TTL, as on MySQL. Nothing is ever
// lost, so an election without a record is free at once.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-election/go-election/backend"
)

// A client is one process's access.
type client struct {
	*Store
	guard backend.Guard
}

// in runs one call of the candidate with this nonce, alone in the store.
func (c *client) in(ctx context.Context, verb, nonce string, call func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.guard.Enter(ctx, nonce)
	if err == nil {
		err = call()
	}
	if err != nil {
		return fmt.Errorf("memory: %s: %w", verb, err)
	}
	return nil
}

func (c *client) Acquire(ctx context.Context, bids []backend.Bid) (answers []backend.Answer, err error) {
	err = c.in(ctx, "acquire", bids[0].Candidate.Nonce, func() error {
		answers = make([]backend.Answer, len(bids))
		for i, b := range bids {
			r := c.record(b.Election)
			mine := r.Holder.Nonce == b.Candidate.Nonce // a leftover of ours: granted anew
			if !mine && !r.Unchanged(b.Over) || r.MovedTo != b.Over.MovedTo {
				answers[i] = backend.Answer{Lease: c.view(r), Outcome: backend.Refused}
				continue
			}
			term, err := backend.NextTerm(r.Term, false, b.Floor, c.Now())
			if err != nil {
				answers[i].Err = fmt.Errorf("memory: acquire %q: %w", b.Election, err)
				continue
			}
			c.end(r, backend.Failed)
			r.Holder, r.Term, r.TTL, r.Renew, r.Watch = backend.CleanCandidate(b.Candidate), term, b.TTL, b.Renew, b.TTL
			r.Wish, r.Elected = backend.Wish{}, c.Now().UTC()
			c.write(r)
			answers[i] = backend.Answer{Lease: c.view(r), Outcome: backend.Granted, Trust: b.TTL}
		}
		return nil
	})
	return answers, err
}

func (c *client) Renew(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
	return c.renew(ctx, "renew", held, func(*record, backend.Lease) {})
}

func (c *client) Move(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
	return c.renew(ctx, "move", held, func(r *record, l backend.Lease) { r.MovedTo, r.MovedFrom = l.MovedTo, l.MovedFrom })
}

func (c *client) renew(ctx context.Context, verb string, held []backend.Lease, mark func(*record, backend.Lease)) (answers []backend.Answer, err error) {
	err = c.in(ctx, verb, held[0].Holder.Nonce, func() error {
		answers = make([]backend.Answer, len(held))
		for i, l := range held {
			r := c.record(l.Election)
			answers[i].Outcome = backend.Refused
			if r.Holder.Nonce == l.Holder.Nonce && r.Term == l.Term && r.Wish.Kind != backend.Depose {
				mark(r, l)
				c.write(r)
				answers[i].Outcome, answers[i].Trust = backend.Granted, r.TTL
			}
			answers[i].Lease = c.view(r)
		}
		return nil
	})
	return answers, err
}

func (c *client) Release(ctx context.Context, held []backend.Lease) error {
	return c.in(ctx, "release", "", func() error {
		for _, l := range held {
			r := c.record(l.Election)
			if !r.Vacant() && r.Holder.Nonce == c.guard.Nonce() && (l.Term == 0 || l.Term == r.Term) {
				c.end(r, l.End)
				r.Holder, r.TTL, r.Renew, r.Watch = backend.Candidate{}, 0, 0, 0
				c.write(r)
			}
		}
		return nil
	})
}

func (c *client) Observe(ctx context.Context, seen []backend.Lease, _ string) (changed []backend.Lease, next string, err error) {
	err = c.in(ctx, "observe", "", func() error {
		for _, l := range seen {
			if r := c.record(l.Election); l.Beat == 0 || c.view(r).Differs(l) {
				changed = append(changed, c.view(r))
			}
		}
		return nil
	})
	return changed, "", err
}

func (c *client) Listen(ctx context.Context, seen []backend.Lease, _ string) error {
	for {
		old, news := false, (chan struct{})(nil)
		err := c.in(ctx, "listen", "", func() error {
			old = slices.ContainsFunc(seen, func(l backend.Lease) bool { return c.view(c.record(l.Election)).Differs(l) })
			news = c.changed
			return nil
		})
		if old || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *client) Ask(ctx context.Context, wishes []backend.Wish) error {
	return c.in(ctx, "ask", "", func() (err error) {
		for _, w := range wishes {
			r := c.record(w.Election)
			if r.Term != w.Term || w.Term == 0 {
				err = fmt.Errorf("election %q has term %d, not %d: %w", w.Election, r.Term, w.Term, backend.ErrStale)
				continue
			}
			if r.Wish = w; w.Kind == "" {
				r.Wish = backend.Wish{}
			}
			c.tell()
		}
		return err
	})
}

func (c *client) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	err = c.in(ctx, "list", "", func() error {
		for _, name := range slices.Sorted(maps.Keys(c.records)) {
			if r := c.records[name]; name >= from && r.Term > 0 && len(list) < limit {
				list = append(list, backend.Record{Lease: c.view(r), Elected: r.Elected, History: slices.Clone(r.History)})
			}
		}
		return nil
	})
	return list, err
}

func (c *client) Announce(ctx context.Context, m backend.Member) error {
	return c.in(ctx, "announce", m.Nonce, func() error {
		c.members[m.Nonce], c.seen[m.Nonce] = m, c.Now()
		return nil
	})
}

func (c *client) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	err = c.in(ctx, "members", "", func() error {
		for _, nonce := range slices.Sorted(maps.Keys(c.members)) {
			m := c.members[nonce]
			m.Age = c.Now().Sub(c.seen[nonce])
			if nonce >= from && m.Age <= 2*m.TTL && len(list) < limit {
				list = append(list, m)
			}
		}
		return nil
	})
	return list, err
}

func (c *client) Close() error {
	c.guard.Close()
	return nil
}
