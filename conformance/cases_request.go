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
	held := must(a.win("jobs"))
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.candidate.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		require(b.request(request))
		now := must(b.read("jobs"))
		records := must(b.list("jobs", 1))
		require(equal("request read", now.Request, request),
			equal("Version after it", now.Version, held.Version),
			equal("term after it", now.Term, held.Term),
			equal("holder after it", now.Holder, a.candidate))
		require(equal("listed records", len(records), 1))
		require(equal("request listed", records[0].Request, request))

		got := must(b.bidOn(backend.Lease{Election: "jobs"}))
		require(equal(fmt.Sprintf("outcome of a bid after the request %s", request.Kind), got.Outcome, backend.Refused))
	}
	return nil
}

func requestStale(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old := must(a.win("jobs"))
	require(a.release(backend.Released, old))
	held := must(a.win("jobs"))

	for _, request := range []backend.Request{
		{Election: "jobs", Term: old.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term + 1, Kind: backend.Nominate, ID: "b"},
		{Election: "never", Term: 7, Kind: backend.Depose},
	} {
		err := b.request(request)
		require(
			expect(errors.Is(err, backend.ErrStale), "ErrStale for "+string(request.Kind)+" with a term that is not the present one", err),
			expect(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err))
	}

	now := must(b.read("jobs"))
	must(a.keep(held))
	return equal("request after stale ones", now.Request, backend.Request{})
}

func requestCleared(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		held := must(a.win("jobs"))
		require(b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: kind, ID: "b", Nonce: b.candidate.Nonce}))
		require(a.release(backend.Deposed, held))

		next := must(b.win("jobs"))
		now := must(a.read("jobs"))
		require(equal("request in the answer to the next grant, after "+string(kind), next.Request, backend.Request{}),
			equal("request read after it", now.Request, backend.Request{}))
		next = must(b.keep(next)) // a deposition must end with its term
		require(b.release(backend.Released, next))
	}
	return nil
}

func requestWithdrawn(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	last := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		last,
	} {
		require(b.request(request))
	}
	held = must(a.keepAfter("another request replaced a deposition", held))
	require(equal("request after three requests", held.Request, last))

	require(b.request(backend.Request{Election: "jobs", Term: held.Term}))
	now := must(a.read("jobs"))
	return equal("request after it was withdrawn", now.Request, backend.Request{})
}

func requestBatch(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var requests []backend.Request
	for i := range 5 {
		l := must(a.win(fmt.Sprintf("jobs%d", i)))
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
		now := must(a.read(fmt.Sprintf("jobs%d", i)))
		require(equal(fmt.Sprintf("request %d of a batch whose third is stale", i), now.Request, request))
	}
	return nil
}

func requestText(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	for _, id := range texts(backend.MaxID) {
		request := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: id}
		require(b.request(request))
		now := must(a.read("jobs"))
		require(equal("nominee read", now.Request.ID, id))
	}
	return nil
}
