package conformance

import (
	"context"
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
	me := backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: "10.0.0.1:80", Metadata: "zone=" + id}
	c := &client{Backend: t.Store.Open(t.tb), candidate: me, t: t}
	t.clients = append(t.clients, c)
	return c
}

// answers makes a call that has an answer for each item. The backend must not change the items, nor keep them
// after the call: they are cleared.
func answers[T comparable](
	c *client, what string, items []T, call func(ctx context.Context, items []T) ([]backend.Answer, error),
) []backend.Answer {
	passed := slices.Clone(items)
	answers, err := call(c.t.callContext(), passed)
	must(err, "%s", what)
	require(equal(len(answers), len(items), "answers to %s", what),
		expect(slices.Equal(passed, items), passed, "%s to leave its items: %+v", what, items))
	clear(passed)
	return answers
}

// read reads one lease.
func (c *client) read(name string) backend.Lease {
	changed := c.observe(zero(name))
	if len(changed) != 1 || changed[0].Election != name {
		fail("observe %.80q: expected this one lease, got %d: %+v", name, len(changed), changed)
	}
	return changed[0]
}

// shows reads a lease, which must be as somebody else was answered that it is, and returns it.
func (c *client) shows(what string, answered backend.Lease) backend.Lease {
	now := c.read(answered.Election)
	require(equal(asRead(now), asRead(answered), "lease that others read after %s", what))
	return now
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
	seen, err := c.Observe(ctx, []backend.Lease{zero(name)})
	if err == nil && len(seen) == 1 {
		l = seen[0]
	}
	return l, err
}

func (c *client) observe(seen ...backend.Lease) (changed []backend.Lease) {
	changed, err := c.Observe(c.t.callContext(), seen)
	must(err, "observe")
	return changed
}

func (c *client) bid(expected backend.Lease) backend.Bid {
	name, ttl := expected.Election, c.t.TTL
	return backend.Bid{Election: name, Candidate: c.candidate, TTL: ttl, Renew: ttl / 3, Expected: expected}
}

// bidsFor reads leases, waits until they are free if nobody holds them, and returns a bid for each, in the
// order of the names.
func (c *client) bidsFor(names ...string) (bids []backend.Bid) {
	expected := c.observe(zeroLeases(names...)...)
	require(equal(len(expected), len(names), "leases in the answer to a first Observe"))
	for _, name := range names {
		i := slices.IndexFunc(expected, func(l backend.Lease) bool { return l.Election == name })
		require(expect(i >= 0, expected, "the lease of %.80q in the answer of Observe", name))
		bids = append(bids, c.bid(expected[i]))
	}
	c.t.sleep(max(expected[0].ObserveFor, 0))
	return bids
}

// zero is a lease of which nothing is known but its name.
func zero(name string) backend.Lease { return backend.Lease{Election: name} }

func zeroLeases(names ...string) (leases []backend.Lease) {
	for _, name := range names {
		leases = append(leases, zero(name))
	}
	return leases
}

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
			fail("bid for %.80q that expects %+v, observed long enough: expected granted, got %v with %+v",
				name, b.Expected, a.Outcome, a.Lease)
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

func (c *client) renew(held ...backend.Lease) []backend.Answer {
	return answers(c, "renew", asHeld(held), c.Renew)
}

// renewal renews a lease, which must have this outcome, and returns the lease as it then is.
func (c *client) renewal(want backend.Outcome, why string, held backend.Lease) backend.Lease {
	a := c.renew(held)[0]
	if a.Outcome != want {
		fail("renewal of %.80q in term %d %s: expected %v, got %v (%v) with %+v",
			held.Election, held.Term, why, want, a.Outcome, a.Err, a.Lease)
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
	for i := range held {
		held[i].End, held[i].Holder = end, c.candidate
	}
	must(c.Release(c.t.callContext(), asHeld(held)), "release")
}

func (c *client) request(requests ...backend.Request) {
	must(c.Request(c.t.callContext(), requests), "request")
}

func (c *client) list(from string, limit int) []backend.Record {
	records, err := c.List(c.t.callContext(), from, limit)
	must(err, "list")
	return records
}

// record returns the record of an election, which must be there.
func (c *client) record(name string) backend.Record {
	records := c.list(name, 1)
	require(expect(len(records) == 1 && records[0].Election == name, records, "a record of %s", name))
	return records[0]
}

// announce writes the client's member record.
func (c *client) announce() {
	must(c.Announce(c.t.callContext(), backend.Member{Candidate: c.candidate, TTL: c.t.TTL}), "announce")
}

func (c *client) members(from string, limit int) []backend.Member {
	members, err := c.Members(c.t.callContext(), from, limit)
	must(err, "members")
	return members
}

// crash ends the client as if its process had died.
func (c *client) crash() {
	if c.t.Store.Kill != nil {
		c.t.Store.Kill(c.Backend)
	}
}
