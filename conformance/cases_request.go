package conformance

import (
	"errors"

	"github.com/go-election/go-election/backend"
)

var requestCases = []Case{
	{Rule: "W1", Name: "a request does not change the lease", calls: requestBeside,
		Says: "Request writes beside the lease. It neither grants nor ends one, and does not change the " +
			"heartbeat. Readers see the request, and so does the holder in the answer to its renewal."},
	{Rule: "W2", Name: "a stale request is not written", calls: requestStale,
		Says: "If the election now has another term, Request writes nothing and returns ErrStale. It still " +
			"writes the other requests of the batch."},
	{Rule: "W3", Name: "the next grant clears the request", calls: requestCleared,
		Says: "A grant clears the request. A release does not."},
	{Rule: "W4", Name: "a request can be withdrawn", calls: requestWithdrawn,
		Says: "A request of the empty kind withdraws the last one. A later request replaces an earlier one."},
}

func requestBeside(t *Trial, a, b *client) {
	held := a.win("jobs")
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.candidate.Nonce},
		{Election: "jobs", Term: held.Term, Kind: backend.Depose},
	} {
		b.request(request)
		held.Request = request
		b.shows("a request", held)
		require(equal(asRead(b.record("jobs").Lease), asRead(held), "listed lease"))

		got := b.bidOn(zero("jobs"))
		require(equal(got.Outcome, backend.Refused, "outcome of a bid after the request %s", request.Kind))

		if request.Kind != backend.Depose { // after that R5 holds
			held = a.keep(held)
			require(equal(held.Request, request, "request in the answer to a renewal"))
		}
	}
}

func requestStale(t *Trial, a, b *client) {
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
			expect(errors.Is(err, backend.ErrStale), err, "ErrStale for %s in another term", request.Kind),
			expect(errors.Is(err, backend.ErrInvalid), err, "an error of class ErrInvalid"))
	}

	require(equal(b.read("jobs").Request, backend.Request{}, "request after stale ones"))
	a.keep(held)

	other := a.win("other")
	good := backend.Request{Election: "other", Term: other.Term, Kind: backend.Nominate, ID: "b"}
	err := try(func() { b.request(stale[0], good, stale[2]) })
	require(expect(errors.Is(err, backend.ErrStale), err, "ErrStale for a batch with stale requests"),
		equal(b.read("other").Request, good, "request beside stale ones"))
}

func requestCleared(t *Trial, a, b *client) {
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		held := a.win("jobs")
		request := backend.Request{Election: "jobs", Term: held.Term, Kind: kind, ID: "b"}
		request.Nonce = b.candidate.Nonce
		b.request(request)
		a.release(backend.Deposed, held)
		require(equal(a.read("jobs").Request, request, "request after the release"))

		next := b.win("jobs")
		now := a.read("jobs")
		require(equal(next.Request, backend.Request{}, "request in the next answer, after %s", kind),
			equal(now.Request, backend.Request{}, "request read after it"))
		next = b.keep(next) // a deposition must end with its term
		b.release(backend.Released, next)
	}
}

func requestWithdrawn(t *Trial, a, b *client) {
	held := a.win("jobs")
	b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Depose})
	b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"})
	last := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "c"}
	b.request(last)
	held = a.keepAfter("another request replaced a deposition", held)
	require(equal(held.Request, last, "request after three requests"))

	b.request(backend.Request{Election: "jobs", Term: held.Term})
	now := a.read("jobs")
	require(equal(now.Request, backend.Request{}, "request after it was withdrawn"))
}
