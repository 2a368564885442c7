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

// mustMark calls Mark for one lease and returns it as it then is. Any outcome but Granted
// is an error.
func (c *client) mustMark(held backend.Lease, to, from string) (backend.Lease, error) {
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
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if err := equalMarks("before the first mark", held, "", ""); err != nil {
		return err
	}
	if held, err = a.mustMark(held, "", "elsewhere"); err != nil {
		return err
	}
	if held, err = a.mustRenew(held); err != nil {
		return err
	}
	now, err := b.read("jobs")
	if err := errors.Join(err, equalMarks("after a renewal", now, "", "elsewhere")); err != nil {
		return err
	}
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	now, err = b.read("jobs")
	if err := errors.Join(err, equalMarks("after a release", now, "", "elsewhere")); err != nil {
		return err
	}
	if held, err = b.win("jobs"); err != nil {
		return err
	}
	if err := equalMarks("after a grant to another candidate", held, "", "elsewhere"); err != nil {
		return err
	}
	records, err := a.list("jobs", 1)
	if err != nil {
		return err
	}
	if err := errors.Join(equal("records", len(records), 1), equalMarks("in the record", records[0].Lease, "", "elsewhere")); err != nil {
		return err
	}
	if held, err = b.mustMark(held, "there", ""); err != nil {
		return err
	}
	_, err = b.mustMark(held, "", "")
	return err
}

func marksSeal(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if held, err = a.mustMark(held, "there", ""); err != nil {
		return err
	}
	if held, err = a.mustRenew(held); err != nil {
		return fmt.Errorf("by the holder of a sealed lease: %w", err)
	}
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	now, err := b.read("jobs")
	if err != nil {
		return err
	}
	blind := now
	blind.MovedTo = ""
	for _, c := range []*client{a, b} {
		got, err := c.bidOn(blind)
		if err := errors.Join(err, equal("outcome of a bid that does not show the seal", got.Outcome, backend.Refused)); err != nil {
			return err
		}
	}
	got, err := b.bidOn(now)
	return errors.Join(err, equal("outcome of a bid that shows the seal", got.Outcome, backend.Granted), equalMarks("after it", got.Lease, "there", ""))
}

func marksPinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	other := held
	other.Term++
	refused := func(why string, l backend.Lease) error {
		got, err := a.setMarks(l, "there", "")
		if err := errors.Join(err, equal("outcome of a mark "+why, got.Outcome, backend.Refused)); err != nil {
			return err
		}
		now, err := b.read("jobs")
		return errors.Join(err, equalMarks("after a mark "+why, now, "", ""))
	}
	if err := refused("in another term", other); err != nil {
		return err
	}
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	if err := refused("after a release", held); err != nil {
		return err
	}
	if !t.Exclusive {
		return nil
	}
	later, err := b.win("jobs")
	if err != nil {
		return err
	}
	if err := refused("after another grant", held); err != nil {
		return err
	}
	_, err = b.mustRenew(later)
	return err
}

func marksShow(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	before, err := b.read("jobs")
	if err != nil {
		return err
	}
	if _, err := a.mustMark(held, "", "elsewhere"); err != nil {
		return err
	}
	now, err := b.read("jobs")
	if err := errors.Join(err, expect(now.Version != before.Version, "another Version after a mark", now)); err != nil {
		return err
	}
	got, err := b.bidOn(before)
	return errors.Join(err, equal("outcome of a bid that expects the lease from before the mark", got.Outcome, backend.Refused))
}

func preflightChangesNothing(t *Trial) error {
	a, b, c := t.client("a"), t.client("b"), t.client("c")
	p, ok := b.Backend.(backend.Preflighter)
	if !ok {
		return nil // Preflight is optional
	}
	before, err := a.win("done")
	if err := errors.Join(err, a.release(backend.Released, before)); err != nil {
		return err
	}
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	names, seen := []string{"done", "free", "jobs"}, map[string]backend.Lease{}
	var bids []backend.Bid
	for _, name := range names {
		if seen[name], err = c.read(name); err != nil {
			return err
		}
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
			now, err := c.read(name)
			if err := errors.Join(err, expect(!now.Differs(seen[name]), "the same lease after Preflight", now)); err != nil {
				return err
			}
		}
		records, err := c.list("", 10)
		if err := errors.Join(err, equal("records after Preflight", len(records), 2)); err != nil {
			return err
		}
	}
	other := bids[0]
	other.Candidate.Nonce = backend.NewNonce()
	errs, err := preflight([]backend.Bid{other})
	if err := errors.Join(err, expect(errors.Is(errs[0], backend.ErrInvalid), "an error of class ErrInvalid for a second nonce", errs[0])); err != nil {
		return err
	}
	if _, err = a.mustRenew(held); err != nil {
		return err
	}
	_, err = b.win("free")
	return err
}
