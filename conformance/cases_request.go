package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var requestCases = []Case{
	{Rule: "W1", Name: "a request does not change the lease", Run: requestBeside,
		Says: "Request writes a request beside the lease. It neither grants nor ends a lease, and does not change the heartbeat. Readers see the request, and so does the holder in the answer to its renewal."},
	{Rule: "W2", Name: "a stale request is not written", Run: requestStale,
		Says: "If the election now has another term, Request writes nothing and returns ErrStale. It still writes the other requests of the batch."},
	{Rule: "W3", Name: "the next grant clears the request", Run: requestCleared,
		Says: "A grant clears the request. A release does not."},
	{Rule: "W4", Name: "a request can be withdrawn", Run: requestWithdrawn,
		Says: "A request with the empty kind withdraws the request beside the lease. A later request replaces an earlier one."},
}

func requestBeside(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.candidate.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		b.request(request)
		held.Request = request
		b.shows("a request", held)
		require(equal("listed lease", asRead(b.record("jobs").Lease), asRead(held)))

		got := b.bidOn(backend.Lease{Election: "jobs"})
		require(equal(fmt.Sprintf("outcome of a bid after the request %s", request.Kind), got.Outcome, backend.Refused))

		if request.Kind != backend.Depose { // after that R5 holds
			held = a.keep(held)
			require(equal("request in the answer to a renewal", held.Request, request))
		}
	}
}

func requestStale(t *Trial) {
	a, b := t.client("a"), t.client("b")
	old := a.win("jobs")
	a.release(backend.Released, old)
	held := a.win("jobs")

	stale := []backend.Request{
		{Election: "jobs", Term: old.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term + 1, Kind: backend.Nominate, ID: "b"},
		{Election: "never", Term: 7, Kind: backend.Depose},
	}
	for _, request := range stale {
		err := try(func() { b.request(request) })
		require(
			expect(errors.Is(err, backend.ErrStale), "ErrStale for "+string(request.Kind)+" with a term that is not the present one", err),
			expect(errors.Is(err, backend.ErrInvalid), "an error of class ErrInvalid", err))
	}

	require(equal("request after stale ones", b.read("jobs").Request, backend.Request{}))
	a.keep(held)

	other := a.win("other")
	good := backend.Request{Election: "other", Term: other.Term, Kind: backend.Nominate, ID: "b"}
	err := try(func() { b.request(stale[0], good, stale[2]) })
	require(expect(errors.Is(err, backend.ErrStale), "ErrStale for a batch with stale requests", err),
		equal("request beside stale ones", b.read("other").Request, good))
}

func requestCleared(t *Trial) {
	a, b := t.client("a"), t.client("b")
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		held := a.win("jobs")
		request := backend.Request{Election: "jobs", Term: held.Term, Kind: kind, ID: "b", Nonce: b.candidate.Nonce}
		b.request(request)
		a.release(backend.Deposed, held)
		require(equal("request after the release", a.read("jobs").Request, request))

		next := b.win("jobs")
		now := a.read("jobs")
		require(equal("request in the answer to the next grant, after "+string(kind), next.Request, backend.Request{}),
			equal("request read after it", now.Request, backend.Request{}))
		next = b.keep(next) // a deposition must end with its term
		b.release(backend.Released, next)
	}
}

func requestWithdrawn(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	last := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		last,
	} {
		b.request(request)
	}
	held = a.keepAfter("another request replaced a deposition", held)
	require(equal("request after three requests", held.Request, last))

	b.request(backend.Request{Election: "jobs", Term: held.Term})
	now := a.read("jobs")
	require(equal("request after it was withdrawn", now.Request, backend.Request{}))
}
