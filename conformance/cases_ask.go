package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var askCases = []Case{
	{Rule: "W1", Name: "a wish stands beside the lease", Run: askBeside,
		Says: "Ask writes wishes beside a lease; it neither grants nor ends anything and does not touch the beat."},
	{Rule: "W2", Name: "a stale wish is not written", Run: askStale,
		Says: "If the election has another term by now, the wish is not written and the error is ErrStale."},
	{Rule: "W3", Name: "the next grant clears the wish", Run: askCleared,
		Says: "The grant clears any wish."},
	{Rule: "W4", Name: "a wish can be withdrawn", Run: askWithdrawn,
		Says: "The empty kind, in Ask, withdraws a wish; a later wish takes the place of an earlier one."},
	{Rule: "W5", Name: "a wish for another term costs the others nothing", Run: askBatch,
		Says: "Outcomes are per item: a stale wish in a batch does not keep the others from being written."},
	{Rule: "W6", Name: "a wish is kept byte for byte", Run: askText,
		Says: "Ids in wishes come back byte for byte."},
}

func askBeside(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, w := range []backend.Wish{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.me.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		if err := b.wish(w); err != nil {
			return fmt.Errorf("ask %s: expected no error, got %w", w.Kind, err)
		}
		now, err := b.look("jobs")
		records, err2 := b.list("jobs", 1)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if err := errors.Join(same("records listed", len(records), 1), same("wish read", now.Wish, w), same("beat", now.Beat, held.Beat), same("term", now.Term, held.Term), same("holder", now.Holder, a.me)); err != nil {
			return fmt.Errorf("after %s: %w", w.Kind, err)
		}
		if err := same("wish listed", records[0].Wish, w); err != nil {
			return err
		}
		got, err := b.try1(backend.Lease{Election: "jobs"})
		if err := errors.Join(err, same(fmt.Sprintf("outcome of a bid after %s", w.Kind), got.Outcome, backend.Refused)); err != nil {
			return err
		}
	}
	return nil
}

func askStale(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	gone := old
	if err := a.free(backend.Released, gone); err != nil {
		return err
	}
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, w := range []backend.Wish{
		{Election: "jobs", Term: old.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term + 1, Kind: backend.Nominate, ID: "b"},
		{Election: "never", Term: 7, Kind: backend.Depose},
	} {
		err := b.wish(w)
		if err := errors.Join(must(errors.Is(err, backend.ErrStale), "ErrStale for "+string(w.Kind)+" with a term that is not the present one", err),
			must(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err)); err != nil {
			return err
		}
	}
	now, err := b.look("jobs")
	_, err2 := a.keep(held)
	return errors.Join(err, err2, same("wish after stale ones", now.Wish, backend.Wish{}))
}

func askCleared(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, kind := range []backend.WishKind{backend.Nominate, backend.Accept, backend.Depose} {
		held, err := a.win("jobs")
		if err != nil {
			return err
		}
		if err := b.wish(backend.Wish{Election: "jobs", Term: held.Term, Kind: kind, ID: "b", Nonce: b.me.Nonce}); err != nil {
			return fmt.Errorf("ask: expected no error, got %w", err)
		}
		if err := a.free(backend.Deposed, held); err != nil {
			return err
		}
		next, err := b.win("jobs")
		if err != nil {
			return err
		}
		now, err := a.look("jobs")
		if err := errors.Join(err, same("wish in the answer to the next grant, after "+string(kind), next.Wish, backend.Wish{}), same("wish read after it", now.Wish, backend.Wish{})); err != nil {
			return err
		}
		if next, err = b.keep(next); err != nil { // a deposition must not outlive its term
			return err
		}
		if err := b.free(backend.Released, next); err != nil {
			return err
		}
	}
	return nil
}

func askWithdrawn(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	last := backend.Wish{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	for _, w := range []backend.Wish{
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		last,
	} {
		if err := b.wish(w); err != nil {
			return fmt.Errorf("ask %s: expected no error, got %w", w.Kind, err)
		}
	}
	if held, err = a.keep(held); err != nil {
		return fmt.Errorf("after a deposition was replaced: %w", err)
	}
	if err := same("wish, which is the last of three", held.Wish, last); err != nil {
		return err
	}
	if err := b.wish(backend.Wish{Election: "jobs", Term: held.Term}); err != nil {
		return fmt.Errorf("withdraw: expected no error, got %w", err)
	}
	now, err := a.look("jobs")
	return errors.Join(err, same("wish after it was withdrawn", now.Wish, backend.Wish{}))
}

func askBatch(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var wishes []backend.Wish
	for i := range 5 {
		l, err := a.win(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		w := backend.Wish{Election: l.Election, Term: l.Term, Kind: backend.Nominate, ID: "b"}
		if i == 2 {
			w.Term--
		}
		wishes = append(wishes, w)
	}
	if err := b.wish(wishes...); !errors.Is(err, backend.ErrStale) {
		return fmt.Errorf("batch with one stale wish: expected ErrStale, got %v", err)
	}
	for i, w := range wishes {
		if i == 2 {
			w = backend.Wish{}
		}
		now, err := a.look(fmt.Sprintf("jobs%d", i))
		if err := errors.Join(err, same(fmt.Sprintf("wish %d of a batch whose third is stale", i), now.Wish, w)); err != nil {
			return err
		}
	}
	return nil
}

func askText(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, id := range texts(backend.MaxID) {
		w := backend.Wish{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: id}
		if err := b.wish(w); err != nil {
			return fmt.Errorf("nominate %.80q: expected no error, got %w", id, err)
		}
		now, err := a.look("jobs")
		if err := errors.Join(err, same("nominee read", now.Wish.ID, id)); err != nil {
			return err
		}
	}
	return nil
}
