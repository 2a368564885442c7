package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var askCases = []Case{
	{Rule: "W1", Name: "a request stands beside the lease", Run: askBeside,
		Says: "Ask writes requests beside a lease; it neither grants nor ends anything and does not touch the heartbeat."},
	{Rule: "W2", Name: "a stale request is not written", Run: askStale,
		Says: "If the election has another term by now, the request is not written and the error is ErrStale."},
	{Rule: "W3", Name: "the next grant clears the request", Run: askCleared,
		Says: "The grant clears any request."},
	{Rule: "W4", Name: "a request can be withdrawn", Run: askWithdrawn,
		Says: "The empty kind, in Ask, withdraws a request; a later request takes the place of an earlier one."},
	{Rule: "W5", Name: "a request for another term costs the others nothing", Run: askBatch,
		Says: "Outcomes are per item: a stale request in a batch does not keep the others from being written."},
	{Rule: "W6", Name: "a request is kept byte for byte", Run: askText,
		Says: "Ids in requests come back byte for byte."},
}

func askBeside(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, w := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.me.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		if err := b.request(w); err != nil {
			return fmt.Errorf("ask %s: expected no error, got %w", w.Kind, err)
		}
		now, err := b.look("jobs")
		records, err2 := b.list("jobs", 1)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if err := errors.Join(same("records listed", len(records), 1), same("request read", now.Request, w), same("heartbeat", now.Heartbeat, held.Heartbeat), same("term", now.Term, held.Term), same("holder", now.Holder, a.me)); err != nil {
			return fmt.Errorf("after %s: %w", w.Kind, err)
		}
		if err := same("request listed", records[0].Request, w); err != nil {
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
	for _, w := range []backend.Request{
		{Election: "jobs", Term: old.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term + 1, Kind: backend.Nominate, ID: "b"},
		{Election: "never", Term: 7, Kind: backend.Depose},
	} {
		err := b.request(w)
		if err := errors.Join(must(errors.Is(err, backend.ErrStale), "ErrStale for "+string(w.Kind)+" with a term that is not the present one", err),
			must(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err)); err != nil {
			return err
		}
	}
	now, err := b.look("jobs")
	_, err2 := a.keep(held)
	return errors.Join(err, err2, same("request after stale ones", now.Request, backend.Request{}))
}

func askCleared(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		held, err := a.win("jobs")
		if err != nil {
			return err
		}
		if err := b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: kind, ID: "b", Nonce: b.me.Nonce}); err != nil {
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
		if err := errors.Join(err, same("request in the answer to the next grant, after "+string(kind), next.Request, backend.Request{}), same("request read after it", now.Request, backend.Request{})); err != nil {
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
	last := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	for _, w := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		last,
	} {
		if err := b.request(w); err != nil {
			return fmt.Errorf("ask %s: expected no error, got %w", w.Kind, err)
		}
	}
	if held, err = a.keep(held); err != nil {
		return fmt.Errorf("after a deposition was replaced: %w", err)
	}
	if err := same("request, which is the last of three", held.Request, last); err != nil {
		return err
	}
	if err := b.request(backend.Request{Election: "jobs", Term: held.Term}); err != nil {
		return fmt.Errorf("withdraw: expected no error, got %w", err)
	}
	now, err := a.look("jobs")
	return errors.Join(err, same("request after it was withdrawn", now.Request, backend.Request{}))
}

func askBatch(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var requests []backend.Request
	for i := range 5 {
		l, err := a.win(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		w := backend.Request{Election: l.Election, Term: l.Term, Kind: backend.Nominate, ID: "b"}
		if i == 2 {
			w.Term--
		}
		requests = append(requests, w)
	}
	if err := b.request(requests...); !errors.Is(err, backend.ErrStale) {
		return fmt.Errorf("batch with one stale request: expected ErrStale, got %v", err)
	}
	for i, w := range requests {
		if i == 2 {
			w = backend.Request{}
		}
		now, err := a.look(fmt.Sprintf("jobs%d", i))
		if err := errors.Join(err, same(fmt.Sprintf("request %d of a batch whose third is stale", i), now.Request, w)); err != nil {
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
		w := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: id}
		if err := b.request(w); err != nil {
			return fmt.Errorf("nominate %.80q: expected no error, got %w", id, err)
		}
		now, err := a.look("jobs")
		if err := errors.Join(err, same("nominee read", now.Request.ID, id)); err != nil {
			return err
		}
	}
	return nil
}
