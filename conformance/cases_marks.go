package conformance

import (
	"errors"

	"github.com/go-election/go-election/backend"
)

var markCases = []Case{
	{Rule: "V1", Name: "marks stay through renewals and grants", calls: marksStay, needs: []need{marks},
		Says: "Only Mark changes MovedTo and MovedFrom. They stay through renewals, releases and grants, " +
			"and all see them. Mark changes Version: a bid on the lease from before is refused."},
	{Rule: "V2", Name: "a sealed lease needs a bid that shows the seal", calls: marksSeal,
		needs: []need{marks},
		Says:  "While MovedTo is set, the store grants the lease only to a bid whose Expected contains it."},
	{Rule: "V3", Name: "Mark is refused like a renewal", calls: marksPinned, needs: []need{marks},
		Says: "In another term, after a release or after another grant Mark is refused, with no effect."},
	{Rule: "V6", Name: "Preflight changes nothing", calls: preflightChangesNothing,
		Says: "Preflight, if the backend has it, changes no lease, record or request, whoever holds the " +
			"lease. It returns no error for a bid that only the current lease prevents."},
}

// setMarks calls Mark for one lease and returns the answer.
func (c *client) setMarks(held backend.Lease, to, from string) backend.Answer {
	held.MovedTo, held.MovedFrom = to, from
	return answers(c, "mark", []backend.Held{held.Held()}, c.Backend.(backend.Marker).Mark)[0]
}

// mark calls Mark for one lease, which must be granted, and returns it as it then is.
func (c *client) mark(held backend.Lease, to, from string) backend.Lease {
	a := c.setMarks(held, to, from)
	require(equal(a.Outcome, backend.Granted, "outcome of a mark by the holder"),
		equalMarks("in the answer", a.Lease, to, from))
	return a.Lease
}

func equalMarks(where string, l backend.Lease, to, from string) error {
	return equal([2]string{l.MovedTo, l.MovedFrom}, [2]string{to, from}, "MovedTo and MovedFrom %s", where)
}

func marksStay(t *Trial, a, b *client) {
	held := a.win("jobs")
	before := b.read("jobs")
	require(equalMarks("before the first mark", before, "", ""))

	held = a.mark(held, "", "elsewhere")
	require(expect(b.read("jobs").Version != before.Version, before.Version, "another Version after a mark"))
	t.refusedBid("a bid that expects the lease from before the mark", b.bidOn(before))
	held = a.keep(held)
	now := b.read("jobs")
	require(equalMarks("after a renewal", now, "", "elsewhere"))

	a.release(backend.Released, held)
	now = b.read("jobs")
	require(equalMarks("after a release", now, "", "elsewhere"))
	held = b.win("jobs")
	require(equalMarks("after a grant to another candidate", held, "", "elsewhere"))
	require(equalMarks("in the record", a.record("jobs").Lease, "", "elsewhere"))

	held = b.mark(held, "there", "")
	b.mark(held, "", "")
}

func marksSeal(t *Trial, a, b *client) {
	held := a.win("jobs")
	held = a.mark(held, "there", "")
	held = a.keepAfter("it was sealed", held)
	a.release(backend.Released, held)

	now := b.read("jobs")
	blind := now
	blind.MovedTo = ""
	for _, c := range []*client{a, b} {
		t.refusedBid("a bid that does not show the seal", c.bidOn(blind))
	}
	got := b.bidOn(now)
	require(equal(got.Outcome, backend.Granted, "outcome of a bid that shows the seal"),
		equalMarks("after it", got.Lease, "there", ""))
}

func marksPinned(t *Trial, a, b *client) {
	held := a.win("jobs")
	other := held
	other.Term++
	refused := func(why string, l backend.Lease) {
		got := a.setMarks(l, "there", "")
		require(equal(got.Outcome, backend.Refused, "outcome of a mark %s", why))
		require(equalMarks("after a mark "+why, b.read("jobs"), "", ""))
	}

	refused("in another term", other)
	a.release(backend.Released, held)
	refused("after a release", held)
	if !t.Exclusive {
		return
	}
	later := b.win("jobs")
	refused("after another grant", held)
	b.keep(later)
}

func preflightChangesNothing(t *Trial, a, b *client) {
	p, ok := b.Backend.(backend.Preflighter)
	if !ok {
		return // Preflight is optional
	}
	a.release(backend.Released, a.win("done"))
	held := a.win("jobs")
	records := a.list("", 10)
	var bids []backend.Bid
	for _, name := range []string{"done", "free", "jobs"} {
		bids = append(bids, b.bid(zero(name)))
	}

	ctx := t.callContext()
	require(p.Preflight(ctx, bids)...)
	now := a.list("", 10)
	require(equal(len(now), len(records), "records after Preflight"))
	for i, r := range records {
		require(expect(!now[i].Differs(r.Lease), now[i], "the same lease after Preflight"))
	}

	bids[0].Candidate.Nonce = backend.NewNonce()
	err := p.Preflight(ctx, bids[:1])[0]
	require(expect(errors.Is(err, backend.ErrInvalid), err, "ErrInvalid for a second nonce"))
	a.keep(held)
	b.win("free")
}
