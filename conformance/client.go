package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A client is a backend and the candidate that it serves, for contract cases. Its
// methods give each call a deadline.
type client struct {
	backend.Backend
	candidate backend.Candidate
	t         *Trial
}

// client connects another client, with a fresh nonce.
func (t *Trial) client(id string) *client {
	c := &client{
		Backend: t.Store.Open(t.tb), t: t,
		candidate: backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: "10.0.0.1:80", Metadata: "zone=" + id},
	}
	t.clients = append(t.clients, c)
	return c
}

// read reads one lease.
func (c *client) read(name string) (backend.Lease, error) {
	changed, err := c.observe(backend.Lease{Election: name})
	switch {
	case err != nil:
		return backend.Lease{}, err
	case len(changed) != 1 || changed[0].Election != name:
		return backend.Lease{}, fmt.Errorf("observe %.80q: expected this one lease, got %d: %+v", name, len(changed), changed)
	}
	return changed[0], nil
}

// readQuickly reads one lease with a short deadline. After a fault a broken connection
// may never answer, so the caller tries again on the next one.
func (c *client) readQuickly(name string) (l backend.Lease, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.t.TTL/2)
	defer cancel()
	seen, err := c.Observe(ctx, []backend.Lease{{Election: name}})
	if err == nil && len(seen) == 1 {
		l = seen[0]
	}
	return l, err
}

// observe returns the leases that have changed.
func (c *client) observe(seen ...backend.Lease) ([]backend.Lease, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	changed, err := c.Observe(ctx, seen)
	if err != nil {
		return nil, fmt.Errorf("observe: expected an answer, got error %w", err)
	}
	return changed, nil
}

// bid returns a bid that expects the given lease.
func (c *client) bid(expected backend.Lease) backend.Bid {
	return backend.Bid{Election: expected.Election, Candidate: c.candidate, TTL: c.t.TTL, Renew: c.t.TTL / 3, Expected: expected}
}

// bidsFor reads leases, waits until they are free if nobody holds them, and returns a bid for each, in the order of the names.
func (c *client) bidsFor(names ...string) (bids []backend.Bid, err error) {
	expected, err := c.observe(zeroLeases(names...)...)
	if err != nil {
		return nil, err
	}
	if err := equal("leases in the answer to a first Observe", len(expected), len(names)); err != nil {
		return nil, err
	}
	for _, name := range names {
		i := slices.IndexFunc(expected, func(l backend.Lease) bool { return l.Election == name })
		if i < 0 {
			return nil, fmt.Errorf("observe: expected the lease of %.80q in the answer", name)
		}
		bids = append(bids, c.bid(expected[i]))
	}
	c.t.sleep(max(expected[0].ObserveFor, 0))
	return bids, nil
}

// zeroLeases returns leases of which nothing is known but their names.
func zeroLeases(names ...string) (leases []backend.Lease) {
	for _, name := range names {
		leases = append(leases, backend.Lease{Election: name})
	}
	return leases
}

// acquire makes bids and returns one answer for each.
func (c *client) acquire(bids ...backend.Bid) ([]backend.Answer, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	answers, err := c.Acquire(ctx, bids)
	return c.checkAnswers("acquire", answers, len(bids), err)
}

// bidOn makes one bid that expects the given lease.
func (c *client) bidOn(expected backend.Lease) (backend.Answer, error) {
	answers, err := c.acquire(c.bid(expected))
	if err != nil {
		return backend.Answer{}, err
	}
	return answers[0], nil
}

func (c *client) checkAnswers(verb string, answers []backend.Answer, n int, err error) ([]backend.Answer, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: expected %d answers, got error %w", verb, n, err)
	}
	if len(answers) != n {
		return nil, fmt.Errorf("%s: expected %d answers, got %d", verb, n, len(answers))
	}
	return answers, nil
}

// win acquires the lease: like a manager, it waits until the lease is free and bids.
func (c *client) win(name string) (backend.Lease, error) {
	return c.winWith(name, func(*backend.Bid) {})
}

func (c *client) winWith(name string, change func(*backend.Bid)) (backend.Lease, error) {
	deadline := time.Now().Add(4*c.t.TTL + c.t.Late)
	for {
		l, err := c.read(name)
		if err != nil {
			return l, err
		}
		switch {
		case l.ObserveFor > 0:
			c.t.sleep(l.ObserveFor)
		case l.ObserveFor < 0:
			c.t.sleep(c.t.TTL / 20)
		}
		b := c.bid(l)
		change(&b)
		answers, err := c.acquire(b)
		if err != nil {
			return backend.Lease{}, err
		}
		a := answers[0]
		switch {
		case a.Outcome == backend.Granted:
			return a.Lease, nil
		case a.Outcome == backend.Unknown || a.Err != nil:
			return backend.Lease{}, fmt.Errorf("bid for %.80q: expected granted, got %v: %v", name, a.Outcome, a.Err)
		case time.Now().After(deadline):
			return backend.Lease{}, fmt.Errorf("bid for %.80q that expects %+v, observed long enough: expected granted by now, got %v with %+v", name, b.Expected, a.Outcome, a.Lease)
		}
	}
}

func asHeld(leases []backend.Lease) []backend.Held {
	held := make([]backend.Held, len(leases))
	for i, l := range leases {
		held[i] = l.Held()
	}
	return held
}

// renew renews leases and returns one answer for each.
func (c *client) renew(held ...backend.Lease) ([]backend.Answer, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	answers, err := c.Renew(ctx, asHeld(held))
	return c.checkAnswers("renew", answers, len(held), err)
}

// keep renews a lease and returns it as it then is. Any outcome but Granted is an
// error.
func (c *client) keep(held backend.Lease) (backend.Lease, error) {
	answers, err := c.renew(held)
	if err != nil {
		return held, err
	}
	if a := answers[0]; a.Outcome != backend.Granted {
		return held, fmt.Errorf("renewal of %.80q by its holder in term %d: expected granted, got %v (%v) with %+v", held.Election, held.Term, a.Outcome, a.Err, a.Lease)
	}
	return answers[0].Lease, nil
}

// keepAfter is keep, with an error that tells what happened before.
func (c *client) keepAfter(what string, held backend.Lease) (backend.Lease, error) {
	held, err := c.keep(held)
	if err != nil {
		err = fmt.Errorf("after %s: %w", what, err)
	}
	return held, err
}

// keepRenewing renews a lease in the background until stop is called.
func (c *client) keepRenewing(held backend.Lease) (stop func() error) {
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-end:
				ended <- nil
				return
			case <-time.After(c.t.renewEvery()):
			}
			if _, err := c.keep(held); err != nil {
				<-end
				ended <- err
				return
			}
		}
	}()
	return func() error { close(end); return <-ended }
}

// cannotKeep renews a lease. Any outcome but Refused is an error.
func (c *client) cannotKeep(why string, held backend.Lease) error {
	answers, err := c.renew(held)
	if err != nil {
		return err
	}
	if a := answers[0]; a.Outcome != backend.Refused {
		return fmt.Errorf("renewal of %.80q in term %d %s: expected refused, got %v (%v) with %+v", held.Election, held.Term, why, a.Outcome, a.Err, a.Lease)
	}
	return nil
}

// release releases leases with a reason.
func (c *client) release(end backend.End, held ...backend.Lease) error {
	ctx, cancel := c.t.callContext()
	defer cancel()
	for i := range held {
		held[i].End, held[i].Holder = end, c.candidate
	}
	if err := c.Release(ctx, asHeld(held)); err != nil {
		return fmt.Errorf("release: expected no error, got %w", err)
	}
	return nil
}

// request writes requests.
func (c *client) request(requests ...backend.Request) error {
	ctx, cancel := c.t.callContext()
	defer cancel()
	if err := c.Request(ctx, requests); err != nil {
		return fmt.Errorf("requests %+v: %w", requests, err)
	}
	return nil
}

// list returns records.
func (c *client) list(from string, limit int) ([]backend.Record, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	records, err := c.List(ctx, from, limit)
	if err != nil {
		return nil, fmt.Errorf("list: expected records, got error %w", err)
	}
	return records, nil
}

// announce writes the client's member record.
func (c *client) announce() error {
	ctx, cancel := c.t.callContext()
	defer cancel()
	if err := c.Announce(ctx, backend.Member{Candidate: c.candidate, TTL: c.t.TTL}); err != nil {
		return fmt.Errorf("announce: expected no error, got %w", err)
	}
	return nil
}

// members returns member records.
func (c *client) members(from string, limit int) ([]backend.Member, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	members, err := c.Members(ctx, from, limit)
	if err != nil {
		return nil, fmt.Errorf("members: expected a list, got error %w", err)
	}
	return members, nil
}

// crash ends the client as if its process had died.
func (c *client) crash() {
	if c.t.Store.Kill != nil {
		c.t.Store.Kill(c.Backend)
	}
}
