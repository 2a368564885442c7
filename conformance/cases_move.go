package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var moveCases = []Case{
	{Rule: "V1", Name: "marks stay", Run: moveStays, skip: moves,
		Says: "Only Mark changes MovedTo and MovedFrom: they stay through renewals, releases and grants, and every reader sees them."},
	{Rule: "V2", Name: "a sealed lease is granted only to who knows it", Run: moveSeals, skip: moves,
		Says: "While MovedTo is set the lease is granted only to a bid whose Over shows it."},
	{Rule: "V3", Name: "a move is pinned like a renewal", Run: movePinned, skip: moves,
		Says: "Mark is refused in another term, after a release and after another grant, and then changes nothing."},
	{Rule: "V4", Name: "a move shows", Run: moveShows, skip: moves,
		Says: "Mark changes Heartbeat or Ref: a bid over the lease as it was before is refused."},
	{Rule: "V5", Name: "nobody leads what has moved", Run: moveEnds, skip: moves,
		Says: "A manager makes no bid for a lease that has moved to another store, and tells watchers so."},
	{Rule: "V6", Name: "what cannot be moved says so", Run: moveCannot, skip: func(f facts) string {
		if f.Marks {
			return "the store can (Guarantees.Marks)"
		}
		return ""
	}, Says: "A store without Guarantees.Marks answers Mark with ErrInvalid."},
	{Rule: "V7", Name: "to prove that one may changes nothing", Run: moveProves,
		Says: "Prove, of a Backend that is a Preflighter, changes no lease, record or request, whoever holds it, and nothing but the lease stands in the way of a bid that is allowed."},
}

// moves skips a case unless Mark works.
func moves(f facts) string {
	if !f.Marks {
		return "elections are not moved from or to this store (Guarantees.Marks)"
	}
	return ""
}

// move moves a lease and returns the answer.
func (c *client) move(held backend.Lease, to, from string) (backend.Answer, error) {
	ctx, cancel := c.t.ctx()
	defer cancel()
	held.MovedTo, held.MovedFrom = to, from
	answers, err := c.Mark(ctx, []backend.Held{held.Held()})
	if answers, err = c.checked("mark", answers, 1, err); err != nil {
		return backend.Answer{}, err
	}
	return answers[0], nil
}

// mark moves a lease, and returns it as it is then. Not to be granted is an error.
func (c *client) mark(held backend.Lease, to, from string) (backend.Lease, error) {
	a, err := c.move(held, to, from)
	if err == nil && a.Outcome != backend.Granted {
		err = fmt.Errorf("move of %.80q by its holder: expected granted, got %v (%v) with %+v", held.Election, a.Outcome, a.Err, a.Lease)
	}
	return a.Lease, errors.Join(err, marked("in the answer", a.Lease, to, from))
}

func marked(where string, l backend.Lease, to, from string) error {
	return errors.Join(same("MovedTo "+where, l.MovedTo, to), same("MovedFrom "+where, l.MovedFrom, from))
}

func moveStays(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if err := marked("of what was never moved", held, "", ""); err != nil {
		return err
	}
	if held, err = a.mark(held, "", "elsewhere"); err != nil {
		return err
	}
	if held, err = a.keep(held); err != nil {
		return err
	}
	now, err := b.look("jobs")
	if err := errors.Join(err, marked("after a renewal", now, "", "elsewhere")); err != nil {
		return err
	}
	if err := a.free(backend.Released, held); err != nil {
		return err
	}
	now, err = b.look("jobs")
	if err := errors.Join(err, marked("after a release", now, "", "elsewhere")); err != nil {
		return err
	}
	if held, err = b.win("jobs"); err != nil {
		return err
	}
	if err := marked("after a grant to another", held, "", "elsewhere"); err != nil {
		return err
	}
	records, err := a.list("jobs", 1)
	if err != nil {
		return err
	}
	if err := errors.Join(same("records", len(records), 1), marked("in the record", records[0].Lease, "", "elsewhere")); err != nil {
		return err
	}
	if held, err = b.mark(held, "there", ""); err != nil {
		return err
	}
	_, err = b.mark(held, "", "")
	return err
}

func moveSeals(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if held, err = a.mark(held, "there", ""); err != nil {
		return err
	}
	if held, err = a.keep(held); err != nil {
		return fmt.Errorf("the holder of a sealed lease renews it: %w", err)
	}
	if err := a.free(backend.Released, held); err != nil {
		return err
	}
	now, err := b.look("jobs")
	if err != nil {
		return err
	}
	blind := now
	blind.MovedTo = ""
	for _, c := range []*client{a, b} {
		got, err := c.try1(blind)
		if err := errors.Join(err, same("outcome of a bid that does not show the seal", got.Outcome, backend.Refused)); err != nil {
			return err
		}
	}
	got, err := b.try1(now)
	return errors.Join(err, same("outcome of a bid that shows the seal", got.Outcome, backend.Granted), marked("after it", got.Lease, "there", ""))
}

func movePinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	other := held
	other.Term++
	refused := func(why string, l backend.Lease) error {
		got, err := a.move(l, "there", "")
		if err := errors.Join(err, same("outcome of a move "+why, got.Outcome, backend.Refused)); err != nil {
			return err
		}
		now, err := b.look("jobs")
		return errors.Join(err, marked("after a move "+why, now, "", ""))
	}
	if err := refused("in another term", other); err != nil {
		return err
	}
	if err := a.free(backend.Released, held); err != nil {
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
	_, err = b.keep(later)
	return err
}

func moveShows(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	before, err := b.look("jobs")
	if err != nil {
		return err
	}
	if _, err := a.mark(held, "", "elsewhere"); err != nil {
		return err
	}
	now, err := b.look("jobs")
	if err := errors.Join(err, must(now.Heartbeat != before.Heartbeat || now.Ref != before.Ref, "another Heartbeat or Ref after a move", now)); err != nil {
		return err
	}
	got, err := b.try1(before)
	return errors.Join(err, same("outcome of a bid over what was before a move", got.Outcome, backend.Refused))
}

func moveEnds(t *Trial) error {
	c := t.client("c")
	held, err := c.win("jobs")
	if err != nil {
		return err
	}
	if held, err = c.mark(held, "there", ""); err != nil {
		return err
	}
	if err := c.free(backend.Released, held); err != nil {
		return err
	}
	s, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := s.lead(); err != nil {
		return err
	}
	if err := t.until(t.bound(), "to be told that the election has moved", func() bool {
		now := s.Current()
		return now.Kind == election.Vacant && now.Reason == election.ReasonMoved && now.Err != nil
	}); err != nil {
		return err
	}
	t.sleep(2 * t.TTL)
	return must(!s.Leading() && s.runs() == 0, "nobody leads what has moved", s.Current())
}

func moveCannot(t *Trial) error {
	c := t.client("c")
	ctx, cancel := t.ctx()
	defer cancel()
	_, err := c.Mark(ctx, []backend.Held{{Election: "jobs", Holder: c.me, Term: 1, TTL: t.TTL, MovedTo: "there"}})
	return must(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err)
}

func moveProves(t *Trial) error {
	a, b, c := t.client("a"), t.client("b"), t.client("c")
	p, ok := b.Backend.(backend.Preflighter)
	if !ok {
		return nil // it need not be one
	}
	before, err := a.win("done")
	if err := errors.Join(err, a.free(backend.Released, before)); err != nil {
		return err
	}
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	names, seen := []string{"done", "free", "jobs"}, map[string]backend.Lease{}
	var bids []backend.Bid
	for _, name := range names {
		if seen[name], err = c.look(name); err != nil {
			return err
		}
		bids = append(bids, b.bid(backend.Lease{Election: name}))
	}
	preflight := func(bids []backend.Bid) (errs []error, err error) {
		ctx, cancel := t.ctx()
		defer cancel()
		errs = p.Preflight(ctx, bids)
		return errs, same("answers to a proof", len(errs), len(bids))
	}
	for range 2 {
		errs, err := preflight(bids)
		if err := errors.Join(err, errors.Join(errs...)); err != nil {
			return fmt.Errorf("prove: expected that nothing stands in the way, got %w", err)
		}
		for _, name := range names {
			now, err := c.look(name)
			if err := errors.Join(err, must(!now.Differs(seen[name]), "the same lease after a proof", now)); err != nil {
				return err
			}
		}
		records, err := c.list("", 10)
		if err := errors.Join(err, same("records after a proof", len(records), 2)); err != nil {
			return err
		}
	}
	other := bids[0]
	other.Candidate.Nonce = backend.NewNonce()
	errs, err := preflight([]backend.Bid{other})
	if err := errors.Join(err, must(errors.Is(errs[0], backend.ErrInvalid), "an error of class ErrInvalid for a second nonce", errs[0])); err != nil {
		return err
	}
	if _, err = a.keep(held); err != nil {
		return err
	}
	_, err = b.win("free")
	return err
}
