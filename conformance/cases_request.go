package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var requestCases = []Case{
	{Rule: "W1", Name: "a request does not change the lease", Run: requestBeside,
		Says: "Request writes a request beside the lease. It neither grants nor ends a lease, and does not change the heartbeat."},
	{Rule: "W2", Name: "a stale request is not written", Run: requestStale,
		Says: "If the election now has another term, Request writes nothing and returns ErrStale."},
	{Rule: "W3", Name: "the next grant clears the request", Run: requestCleared,
		Says: "A grant clears the request."},
	{Rule: "W4", Name: "a request can be withdrawn", Run: requestWithdrawn,
		Says: "A request with the empty kind withdraws the request beside the lease. A later request replaces an earlier one."},
	{Rule: "W5", Name: "a stale request does not affect the others", Run: requestBatch,
		Says: "If one request of a batch is stale, the others are still written."},
	{Rule: "W6", Name: "ids in requests are kept byte for byte", Run: requestText,
		Says: "The store returns the ids in requests byte for byte."},
}

func requestBeside(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.candidate.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		if err := b.request(request); err != nil {
			return fmt.Errorf("request %s: expected no error, got %w", request.Kind, err)
		}
		now, err := b.read("jobs")
		records, err2 := b.list("jobs", 1)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if err := errors.Join(equal("listed records", len(records), 1), equal("request read", now.Request, request), equal("Version", now.Version, held.Version), equal("term", now.Term, held.Term), equal("holder", now.Holder, a.candidate)); err != nil {
			return fmt.Errorf("after %s: %w", request.Kind, err)
		}
		if err := equal("request listed", records[0].Request, request); err != nil {
			return err
		}
		got, err := b.bidOn(backend.Lease{Election: "jobs"})
		if err := errors.Join(err, equal(fmt.Sprintf("outcome of a bid after the request %s", request.Kind), got.Outcome, backend.Refused)); err != nil {
			return err
		}
	}
	return nil
}

func requestStale(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	released := old
	if err := a.release(backend.Released, released); err != nil {
		return err
	}
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: old.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term + 1, Kind: backend.Nominate, ID: "b"},
		{Election: "never", Term: 7, Kind: backend.Depose},
	} {
		err := b.request(request)
		if err := errors.Join(expect(errors.Is(err, backend.ErrStale), "ErrStale for "+string(request.Kind)+" with a term that is not the present one", err),
			expect(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err)); err != nil {
			return err
		}
	}
	now, err := b.read("jobs")
	_, err2 := a.mustRenew(held)
	return errors.Join(err, err2, equal("request after stale ones", now.Request, backend.Request{}))
}

func requestCleared(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		held, err := a.win("jobs")
		if err != nil {
			return err
		}
		if err := b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: kind, ID: "b", Nonce: b.candidate.Nonce}); err != nil {
			return fmt.Errorf("request: expected no error, got %w", err)
		}
		if err := a.release(backend.Deposed, held); err != nil {
			return err
		}
		next, err := b.win("jobs")
		if err != nil {
			return err
		}
		now, err := a.read("jobs")
		if err := errors.Join(err, equal("request in the answer to the next grant, after "+string(kind), next.Request, backend.Request{}), equal("request read after it", now.Request, backend.Request{})); err != nil {
			return err
		}
		if next, err = b.mustRenew(next); err != nil { // a deposition must end with its term
			return err
		}
		if err := b.release(backend.Released, next); err != nil {
			return err
		}
	}
	return nil
}

func requestWithdrawn(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	last := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		last,
	} {
		if err := b.request(request); err != nil {
			return fmt.Errorf("request %s: expected no error, got %w", request.Kind, err)
		}
	}
	if held, err = a.mustRenew(held); err != nil {
		return fmt.Errorf("after another request replaced a deposition: %w", err)
	}
	if err := equal("request after three requests", held.Request, last); err != nil {
		return err
	}
	if err := b.request(backend.Request{Election: "jobs", Term: held.Term}); err != nil {
		return fmt.Errorf("withdraw: expected no error, got %w", err)
	}
	now, err := a.read("jobs")
	return errors.Join(err, equal("request after it was withdrawn", now.Request, backend.Request{}))
}

func requestBatch(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var requests []backend.Request
	for i := range 5 {
		l, err := a.win(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		request := backend.Request{Election: l.Election, Term: l.Term, Kind: backend.Nominate, ID: "b"}
		if i == 2 {
			request.Term--
		}
		requests = append(requests, request)
	}
	if err := b.request(requests...); !errors.Is(err, backend.ErrStale) {
		return fmt.Errorf("batch with one stale request: expected ErrStale, got %v", err)
	}
	for i, request := range requests {
		if i == 2 {
			request = backend.Request{}
		}
		now, err := a.read(fmt.Sprintf("jobs%d", i))
		if err := errors.Join(err, equal(fmt.Sprintf("request %d of a batch whose third is stale", i), now.Request, request)); err != nil {
			return err
		}
	}
	return nil
}

func requestText(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, id := range texts(backend.MaxID) {
		request := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: id}
		if err := b.request(request); err != nil {
			return fmt.Errorf("nominate %.80q: expected no error, got %w", id, err)
		}
		now, err := a.read("jobs")
		if err := errors.Join(err, equal("nominee read", now.Request.ID, id)); err != nil {
			return err
		}
	}
	return nil
}
