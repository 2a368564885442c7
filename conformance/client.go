package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A client is a backend and the candidate that it serves, for contract cases. Its methods give each call a
// deadline, and end the case if the call fails.
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

// call makes a call with a deadline, and ends the case if the call fails.
func (c *client) call(what string, call func(ctx context.Context) error) {
	ask(c, what, func(ctx context.Context) (none struct{}, err error) { return none, call(ctx) })
}

// ask is call for a call that has an answer.
func ask[T any](c *client, what string, call func(ctx context.Context) (T, error)) T {
	ctx, cancel := c.t.callContext()
	defer cancel()
	answer, err := call(ctx)
	if err != nil {
		fail("%s: expected no error, got %w", what, err)
	}
	return answer
}

// answers makes a call that has an answer for each item. The backend must not change the items, nor keep them
// after the call: they are cleared.
func answers[T comparable](
	c *client, what string, items []T, call func(ctx context.Context, items []T) ([]backend.Answer, error),
) []backend.Answer {
	passed := slices.Clone(items)
	answers := ask(c, what, func(ctx context.Context) ([]backend.Answer, error) { return call(ctx, passed) })
	require(equal("answers to "+what, len(answers), len(items)),
		expect(slices.Equal(passed, items), fmt.Sprintf("%s to leave its items: %+v", what, items), passed))
	clear(passed)
	return answers
}

// read reads one lease.
func (c *client) read(name string) backend.Lease {
	changed := c.observe(backend.Lease{Election: name})
	if len(changed) != 1 || changed[0].Election != name {
		fail("observe %.80q: expected this one lease, got %d: %+v", name, len(changed), changed)
	}
	return changed[0]
}

// shows reads a lease, which must be as somebody else was answered that it is.
func (c *client) shows(what string, answered backend.Lease) {
	now := c.read(answered.Election)
	require(equal("lease that others read after "+what, asRead(now), asRead(answered)))
}

// asRead is a lease without what depends on who reads it and when. A migration keeps its own MovedFrom from
// those who only read.
func asRead(l backend.Lease) backend.Lease {
	l.Age, l.ObserveFor, l.MovedFrom = 0, 0, ""
	return l
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
func (c *client) observe(seen ...backend.Lease) (changed []backend.Lease) {
	return ask(c, "observe", func(ctx context.Context) ([]backend.Lease, error) { return c.Observe(ctx, seen) })
}

// bid returns a bid that expects the given lease.
func (c *client) bid(expected backend.Lease) backend.Bid {
	return backend.Bid{Election: expected.Election, Candidate: c.candidate, TTL: c.t.TTL, Renew: c.t.TTL / 3, Expected: expected}
}

// bidsFor reads leases, waits until they are free if nobody holds them, and returns a bid for each, in the
// order of the names.
func (c *client) bidsFor(names ...string) (bids []backend.Bid) {
	expected := c.observe(zeroLeases(names...)...)
	require(equal("leases in the answer to a first Observe", len(expected), len(names)))
	for _, name := range names {
		i := slices.IndexFunc(expected, func(l backend.Lease) bool { return l.Election == name })
		require(expect(i >= 0, fmt.Sprintf("the lease of %.80q in the answer of Observe", name), expected))
		bids = append(bids, c.bid(expected[i]))
	}
	c.t.sleep(max(expected[0].ObserveFor, 0))
	return bids
}

// zeroLeases returns leases of which nothing is known but their names.
func zeroLeases(names ...string) (leases []backend.Lease) {
	for _, name := range names {
		leases = append(leases, backend.Lease{Election: name})
	}
	return leases
}

// acquire makes bids and returns one answer for each.
func (c *client) acquire(bids ...backend.Bid) []backend.Answer {
	return answers(c, "acquire", bids, c.Acquire)
}

// bidOn makes one bid that expects the given lease.
func (c *client) bidOn(expected backend.Lease) backend.Answer { return c.acquire(c.bid(expected))[0] }

// win acquires the lease: like a manager, it waits until the lease is free and bids.
func (c *client) win(name string) backend.Lease {
	return c.winWith(name, func(*backend.Bid) {})
}

func (c *client) winWith(name string, change func(*backend.Bid)) backend.Lease {
	deadline := time.Now().Add(4*c.t.TTL + c.t.Late)
	for {
		l := c.read(name)
		switch {
		case l.ObserveFor > 0:
			c.t.sleep(l.ObserveFor)
		case l.ObserveFor < 0:
			c.t.sleep(c.t.TTL / 20)
		}

		b := c.bid(l)
		change(&b)
		a := c.acquire(b)[0]
		switch {
		case a.Outcome == backend.Granted:
			return a.Lease
		case a.Outcome == backend.Unknown || a.Err != nil:
			fail("bid for %.80q: expected granted, got %v: %v", name, a.Outcome, a.Err)
		case time.Now().After(deadline):
			fail("bid for %.80q that expects %+v, observed long enough: expected granted by now, got %v with %+v", name, b.Expected, a.Outcome, a.Lease)
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
func (c *client) renew(held ...backend.Lease) []backend.Answer {
	return answers(c, "renew", asHeld(held), c.Renew)
}

// renewal renews a lease, which must have this outcome, and returns the lease as it then is.
func (c *client) renewal(want backend.Outcome, why string, held backend.Lease) backend.Lease {
	a := c.renew(held)[0]
	if a.Outcome != want {
		fail("renewal of %.80q in term %d %s: expected %v, got %v (%v) with %+v", held.Election, held.Term, why, want, a.Outcome, a.Err, a.Lease)
	}
	return a.Lease
}

// keep renews a lease that the client holds, and returns it as it then is.
func (c *client) keep(held backend.Lease) backend.Lease { return c.keepAfter("its grant", held) }

// keepAfter is keep; what tells what happened before.
func (c *client) keepAfter(what string, held backend.Lease) backend.Lease {
	return c.renewal(backend.Granted, "by its holder, after "+what, held)
}

// cannotKeep renews a lease that the client does not hold, which must be refused.
func (c *client) cannotKeep(why string, held backend.Lease) { c.renewal(backend.Refused, why, held) }

// release releases leases with a reason.
func (c *client) release(end backend.End, held ...backend.Lease) {
	c.releaseAs(c.candidate, end, held...)
}

// releaseAs releases leases of a holder.
func (c *client) releaseAs(holder backend.Candidate, end backend.End, held ...backend.Lease) {
	for i := range held {
		held[i].End, held[i].Holder = end, holder
	}
	c.call("release", func(ctx context.Context) error { return c.Release(ctx, asHeld(held)) })
}

// request writes requests.
func (c *client) request(requests ...backend.Request) {
	c.call("request", func(ctx context.Context) error { return c.Request(ctx, requests) })
}

// list returns records.
func (c *client) list(from string, limit int) []backend.Record {
	return ask(c, "list", func(ctx context.Context) ([]backend.Record, error) { return c.List(ctx, from, limit) })
}

// record returns the record of an election, which must be there.
func (c *client) record(name string) backend.Record {
	records := c.list(name, 1)
	require(expect(len(records) == 1 && records[0].Election == name, "a record of "+name, fmt.Sprint(records)))
	return records[0]
}

// announce writes the client's member record.
func (c *client) announce() {
	c.call("announce", func(ctx context.Context) error {
		return c.Announce(ctx, backend.Member{Candidate: c.candidate, TTL: c.t.TTL})
	})
}

// members returns member records.
func (c *client) members(from string, limit int) []backend.Member {
	return ask(c, "members", func(ctx context.Context) ([]backend.Member, error) { return c.Members(ctx, from, limit) })
}

// crash ends the client as if its process had died.
func (c *client) crash() {
	if c.t.Store.Kill != nil {
		c.t.Store.Kill(c.Backend)
	}
}
