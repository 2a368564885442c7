package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A Candidate is a backend and the candidate that it serves, without a manager: the test says when it reads,
// bids, renews and resigns. What must succeed ends the test if it does not.
type Candidate struct {
	Me    backend.Candidate
	TTL   time.Duration // of its bids
	Limit time.Duration // of each call; at first a minute
	T     testing.TB

	b backend.Backend
}

// NewCandidate returns a candidate with a nonce of its own.
func NewCandidate(t testing.TB, b backend.Backend, id string, ttl time.Duration) *Candidate {
	return &Candidate{Me: backend.Candidate{ID: id, Nonce: backend.NewNonce()}, TTL: ttl, Limit: time.Minute, T: t, b: b}
}

// Context returns a context for some calls that a test makes by itself.
func (c *Candidate) Context() context.Context {
	ctx, cancel := c.call()
	c.T.Cleanup(cancel)
	return ctx
}

func (c *Candidate) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.T.Context(), c.Limit)
}

// Looks reads a lease as if for the first time.
func (c *Candidate) Looks(election string) (backend.Lease, error) {
	ctx, cancel := c.call()
	defer cancel()
	seen, err := c.b.Observe(ctx, []backend.Lease{{Election: election}})
	if err != nil {
		return backend.Lease{}, err
	}
	if len(seen) != 1 || seen[0].Election != election {
		return backend.Lease{}, fmt.Errorf("%q is read for the first time as %+v", election, seen)
	}
	return seen[0], nil
}

// Sees is Looks, which must not fail.
func (c *Candidate) Sees(election string) backend.Lease {
	c.T.Helper()
	l, err := c.Looks(election)
	if err != nil {
		c.T.Fatalf("%s reads %q: %v", c.Me.ID, election, err)
	}
	return l
}

// BidOver returns a bid for a lease as it was seen.
func (c *Candidate) BidOver(seen backend.Lease) backend.Bid {
	return backend.Bid{Election: seen.Election, Candidate: c.Me, TTL: c.TTL, Renew: c.TTL / 3, Expected: seen}
}

// Bids bids for a lease as it was seen, as if it had been watched for long enough.
func (c *Candidate) Bids(seen backend.Lease) backend.Answer { return c.Makes(c.BidOver(seen))[0] }

// Makes makes bids in one call. If that fails each outcome is unknown, with its error.
func (c *Candidate) Makes(bids ...backend.Bid) []backend.Answer {
	return c.answers(len(bids), func(ctx context.Context) ([]backend.Answer, error) { return c.b.Acquire(ctx, bids) })
}

// Renews renews a lease.
func (c *Candidate) Renews(held backend.Lease) backend.Answer { return c.RenewsAll(held)[0] }

// RenewsAll renews leases in one call. If that fails each outcome is unknown, with its error.
func (c *Candidate) RenewsAll(held ...backend.Lease) []backend.Answer {
	return c.answers(len(held), func(ctx context.Context) ([]backend.Answer, error) { return c.b.Renew(ctx, Held(held...)) })
}

func (c *Candidate) answers(n int, call func(context.Context) ([]backend.Answer, error)) []backend.Answer {
	c.T.Helper()
	ctx, cancel := c.call()
	defer cancel()
	answers, err := call(ctx)
	if err != nil {
		return slices.Repeat([]backend.Answer{{Err: err}}, n)
	}
	if len(answers) != n {
		c.T.Fatalf("%s has %d answers of %d: %+v", c.Me.ID, len(answers), n, answers)
	}
	return answers
}

// Leads bids for a lease as it is, and must be granted it.
func (c *Candidate) Leads(election string) backend.Lease {
	c.T.Helper()
	return c.granted("bid for", election, c.Bids(c.Sees(election)))
}

// Keeps renews a lease, which must be granted.
func (c *Candidate) Keeps(held backend.Lease) backend.Lease {
	c.T.Helper()
	return c.granted("renewal of", held.Election, c.Renews(held))
}

func (c *Candidate) granted(what, election string, a backend.Answer) backend.Lease {
	c.T.Helper()
	if a.Outcome != backend.Granted {
		c.T.Fatalf("the %s %q by %s: %v, %v, %+v; want granted", what, election, c.Me.ID, a.Outcome, a.Err, a.Lease)
	}
	return a.Lease
}

// TakesOver bids until it is granted a lease, and waits before each bid for as long as it must watch.
func (c *Candidate) TakesOver(election string) (l backend.Lease) {
	c.T.Helper()
	testbed.Eventually(c.T, patience, c.Me.ID+" leads", func() error {
		seen, err := c.Looks(election)
		if err != nil {
			return err
		}
		<-time.After(seen.ObserveFor)
		a := c.Bids(seen)
		l = a.Lease
		if a.Outcome != backend.Granted {
			return fmt.Errorf("a bid is %v, %v, %+v", a.Outcome, a.Err, a.Lease)
		}
		return nil
	})
	return l
}

// Resigns releases leases.
func (c *Candidate) Resigns(held ...backend.Lease) {
	c.T.Helper()
	ctx, cancel := c.call()
	defer cancel()
	for i := range held {
		held[i].End = backend.Released
	}
	if err := c.b.Release(ctx, Held(held...)); err != nil {
		c.T.Errorf("%s releases %+v: %v", c.Me.ID, held, err)
	}
}
