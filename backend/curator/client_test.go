package curator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A client is one Backend and the candidate that it serves.
type client struct {
	*Backend
	me backend.Candidate
}

func newClient(t testing.TB, id string, o Options) *client {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &client{b, backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: "10.0.0.1:80"}}
}

func (c *client) bid(over backend.Lease) backend.Bid {
	return backend.Bid{Election: over.Election, Candidate: c.me, TTL: ttl, Renew: ttl / 3, Expected: over}
}

func (c *client) observeOne(t testing.TB, name string) backend.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changed, err := c.Observe(ctx, []backend.Lease{{Election: name}})
	if err != nil || len(changed) != 1 {
		t.Fatalf("observe: %v, %v", changed, err)
	}
	return changed[0]
}

func (c *client) try(over backend.Lease) (backend.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answers, err := c.Acquire(ctx, []backend.Bid{c.bid(over)})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return backend.Answer{}, err
	}
	return answers[0], nil
}

// win bids until the lease is granted, and observes the lease before each bid for as long
// as required.
func (c *client) win(t testing.TB, name string) (l backend.Lease) {
	t.Helper()
	testbed.Eventually(t, patience, "a grant", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		changed, err := c.Observe(ctx, []backend.Lease{{Election: name}})
		if err != nil {
			return err
		}
		pause(t, changed[0].ObserveFor)
		a, err := c.try(changed[0])
		if err == nil && a.Outcome != backend.Granted {
			err = fmt.Errorf("%v with %+v", a.Outcome, a.Lease)
		}
		l = a.Lease
		return err
	})
	return l
}

func (c *client) renew(held ...backend.Lease) ([]backend.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Renew(ctx, drivertest.Held(held...))
}

// keep renews a lease, and fails the test if the renewal is not granted.
func (c *client) keep(t testing.TB, held backend.Lease) {
	t.Helper()
	answers, err := c.renew(held)
	if err != nil || answers[0].Outcome != backend.Granted {
		t.Fatalf("renew: %+v, %v", answers, err)
	}
}

func (c *client) release(held ...backend.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Release(ctx, drivertest.Held(held...))
}

// pause lets time pass at the pace of renewals.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(errors.New("the test has ended"))
	}
}
