package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testrules"
	"github.com/go-election/go-election/lab/testbed"
)

// A Candidate is a backend and the candidate that it serves, without a manager: the test says when it reads,
// bids, renews and resigns. What must succeed ends the test if it does not.
type Candidate struct {
	Me    backend.Candidate
	TTL   time.Duration // of its bids
	Limit time.Duration // of each call; at first a minute
	T     testrules.T

	b backend.Backend
}

// NewCandidate returns a candidate with a nonce of its own.
func NewCandidate(t testing.TB, b backend.Backend, id string, ttl time.Duration) *Candidate {
	me := backend.Candidate{ID: id, Nonce: backend.NewNonce()}
	return &Candidate{Me: me, TTL: ttl, Limit: time.Minute, T: testrules.T{TB: t}, b: b}
}

// Context returns a context for a call.
func (c *Candidate) Context() context.Context {
	ctx, cancel := context.WithTimeout(c.T.Context(), c.Limit)
	c.T.Cleanup(cancel)
	return ctx
}

// Looks reads a lease as if for the first time.
func (c *Candidate) Looks(election string) (backend.Lease, error) {
	seen, err := c.b.Observe(c.Context(), []backend.Lease{{Election: election}})
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
	c.T.Must(err == nil, "%s reads %q: %v", c.Me.ID, election, err)
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
	c.T.Helper()
	answers, err := c.b.Acquire(c.Context(), bids)
	return c.answers(len(bids), answers, err)
}

// Renews renews a lease.
func (c *Candidate) Renews(held backend.Lease) backend.Answer { return c.RenewsAll(held)[0] }

// RenewsAll renews leases in one call. If that fails each outcome is unknown, with its error.
func (c *Candidate) RenewsAll(held ...backend.Lease) []backend.Answer {
	c.T.Helper()
	answers, err := c.b.Renew(c.Context(), Held(held...))
	return c.answers(len(held), answers, err)
}

func (c *Candidate) answers(n int, answers []backend.Answer, err error) []backend.Answer {
	c.T.Helper()
	if err != nil {
		return slices.Repeat([]backend.Answer{{Err: err}}, n)
	}
	c.T.Must(len(answers) == n, "%s has %d answers of %d: %+v", c.Me.ID, len(answers), n, answers)
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
	c.T.Must(a.Outcome == backend.Granted, "the %s %q by %s is not granted: %+v", what, election, c.Me.ID, a)
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
			return fmt.Errorf("a bid is not granted: %+v", a)
		}
		return nil
	})
	return l
}

// Resigns releases leases.
func (c *Candidate) Resigns(held ...backend.Lease) {
	c.T.Helper()
	for i := range held {
		held[i].End = backend.Released
	}
	err := c.b.Release(c.Context(), Held(held...))
	c.T.Want(err == nil, "%s releases %+v: %v", c.Me.ID, held, err)
}
