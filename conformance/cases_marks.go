package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var markCases = []Case{
	{Rule: "V1", Name: "marks stay through renewals and grants", Run: marksStay, skip: needsMarks,
		Says: "Only Mark changes MovedTo and MovedFrom. They stay through renewals, releases and grants, and every reader sees them."},
	{Rule: "V2", Name: "a sealed lease needs a bid that shows the seal", Run: marksSeal, skip: needsMarks,
		Says: "While MovedTo is set, the store grants the lease only to a bid whose Expected contains it."},
	{Rule: "V3", Name: "Mark is refused like a renewal", Run: marksPinned, skip: needsMarks,
		Says: "The store refuses Mark in another term, after a release and after another grant, and changes nothing."},
	{Rule: "V4", Name: "Mark is a visible change", Run: marksShow, skip: needsMarks,
		Says: "Mark changes Version, so the store refuses a bid that expects the lease from before."},
	{Rule: "V6", Name: "Preflight changes nothing", Run: preflightChangesNothing,
		Says: "Preflight, if the backend has it, changes no lease, record or request, whoever holds the lease. It returns no error for a bid that only the current lease prevents."},
}

// needsMarks skips a case unless the backend has Mark.
func needsMarks(f facts) string {
	if _, ok := f.backend.(backend.Marker); !ok {
		return "the store keeps no marks of migrations (it is no Marker)"
	}
	return ""
}

// setMarks calls Mark for one lease and returns the answer.
func (c *client) setMarks(held backend.Lease, to, from string) (backend.Answer, error) {
	ctx, cancel := c.t.callContext()
	defer cancel()
	held.MovedTo, held.MovedFrom = to, from
	answers, err := c.Backend.(backend.Marker).Mark(ctx, []backend.Held{held.Held()})
	if answers, err = c.checkAnswers("mark", answers, 1, err); err != nil {
		return backend.Answer{}, err
	}
	return answers[0], nil
}

// mark calls Mark for one lease and returns it as it then is. Any outcome but Granted
// is an error.
func (c *client) mark(held backend.Lease, to, from string) (backend.Lease, error) {
	a, err := c.setMarks(held, to, from)
	if err == nil && a.Outcome != backend.Granted {
		err = fmt.Errorf("mark of %.80q by its holder: expected granted, got %v (%v) with %+v", held.Election, a.Outcome, a.Err, a.Lease)
	}
	return a.Lease, errors.Join(err, equalMarks("in the answer", a.Lease, to, from))
}

func equalMarks(where string, l backend.Lease, to, from string) error {
	return errors.Join(equal("MovedTo "+where, l.MovedTo, to), equal("MovedFrom "+where, l.MovedFrom, from))
}

func marksStay(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	require(equalMarks("before the first mark", held, "", ""))

	held = must(a.mark(held, "", "elsewhere"))
	held = must(a.keep(held))
	now := must(b.read("jobs"))
	require(equalMarks("after a renewal", now, "", "elsewhere"))

	require(a.release(backend.Released, held))
	now = must(b.read("jobs"))
	require(equalMarks("after a release", now, "", "elsewhere"))
	held = must(b.win("jobs"))
	require(equalMarks("after a grant to another candidate", held, "", "elsewhere"))
	records := must(a.list("jobs", 1))
	require(equal("records", len(records), 1))
	require(equalMarks("in the record", records[0].Lease, "", "elsewhere"))

	held = must(b.mark(held, "there", ""))
	must(b.mark(held, "", ""))
	return nil
}

func marksSeal(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	held = must(a.mark(held, "there", ""))
	held = must(a.keepAfter("it was sealed", held))
	require(a.release(backend.Released, held))

	now := must(b.read("jobs"))
	blind := now
	blind.MovedTo = ""
	for _, c := range []*client{a, b} {
		require(refusedBid("V2", "a bid that does not show the seal", must(c.bidOn(blind))))
	}
	got := must(b.bidOn(now))
	return errors.Join(equal("outcome of a bid that shows the seal", got.Outcome, backend.Granted),
		equalMarks("after it", got.Lease, "there", ""))
}

func marksPinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	other := held
	other.Term++
	refused := func(why string, l backend.Lease) error {
		got := must(a.setMarks(l, "there", ""))
		require(equal("outcome of a mark "+why, got.Outcome, backend.Refused))
		return equalMarks("after a mark "+why, must(b.read("jobs")), "", "")
	}

	require(refused("in another term", other))
	require(a.release(backend.Released, held))
	require(refused("after a release", held))
	if !t.Exclusive {
		return nil
	}
	later := must(b.win("jobs"))
	require(refused("after another grant", held))
	must(b.keep(later))
	return nil
}

func marksShow(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	before := must(b.read("jobs"))

	must(a.mark(held, "", "elsewhere"))
	now := must(b.read("jobs"))
	require(expect(now.Version != before.Version, "another Version after a mark", now))
	return refusedBid("V4", "a bid that expects the lease from before the mark", must(b.bidOn(before)))
}

func preflightChangesNothing(t *Trial) error {
	a, b, c := t.client("a"), t.client("b"), t.client("c")
	p, ok := b.Backend.(backend.Preflighter)
	if !ok {
		return nil // Preflight is optional
	}
	before := must(a.win("done"))
	require(a.release(backend.Released, before))
	held := must(a.win("jobs"))
	names, seen := []string{"done", "free", "jobs"}, map[string]backend.Lease{}
	var bids []backend.Bid
	for _, name := range names {
		seen[name] = must(c.read(name))
		bids = append(bids, b.bid(backend.Lease{Election: name}))
	}

	preflight := func(bids []backend.Bid) (errs []error, err error) {
		ctx, cancel := t.callContext()
		defer cancel()
		errs = p.Preflight(ctx, bids)
		return errs, equal("answers of Preflight", len(errs), len(bids))
	}

	for range 2 {
		errs, err := preflight(bids)
		if err := errors.Join(err, errors.Join(errs...)); err != nil {
			return fmt.Errorf("preflight: expected no errors, got %w", err)
		}
		for _, name := range names {
			now := must(c.read(name))
			require(expect(!now.Differs(seen[name]), "the same lease after Preflight", now))
		}
		records := must(c.list("", 10))
		require(equal("records after Preflight", len(records), 2))
	}

	other := bids[0]
	other.Candidate.Nonce = backend.NewNonce()
	errs := must(preflight([]backend.Bid{other}))
	require(expect(errors.Is(errs[0], backend.ErrInvalid), "an error of class ErrInvalid for a second nonce", errs[0]))

	must(a.keep(held))
	must(b.win("free"))
	return nil
}
