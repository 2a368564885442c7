package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

var releaseCases = []Case{
	{Rule: "X1", Name: "a release frees the lease at once", calls: releaseAtOnce,
		Says: "Release frees the lease at once for any candidate, and readers see another Version. The " +
			"vacant record keeps the term, the last holder and how its leadership ended, held[i].End."},
	{Rule: "X2", Name: "a release ends only its own term", calls: releaseTerm,
		Says: "A Release of another term does not end the current one, however late it is. What is not " +
			"held is released without an error: unknown, vacant, released, or by a client that never bid."},
	{Rule: "X4", Name: "term 0 releases the caller's lease only", calls: releaseTermZero,
		Says: "Release with term 0 first finds the lease that the backend's nonce holds, and then releases " +
			"exactly that one. It does not end a later grant to another candidate."},
}

func releaseAtOnce(t *Trial, a, b *client) {
	for _, end := range []backend.End{backend.Released, backend.Failed, backend.Deposed} {
		held := a.win("jobs")
		seen := b.read("jobs")
		a.release(end, held)

		changed := b.observe(seen)
		require(equal(len(changed), 1, "changes after a release"))
		now := changed[0]
		want := backend.Lease{Election: "jobs", Term: held.Term, Version: now.Version, End: end, LastID: "a"}
		require(equal(asRead(now), want, "lease"), equal(now.ObserveFor, 0, "ObserveFor"),
			expect(now.Version != held.Version, now.Version, "another Version"))

		got := b.bidOn(now)
		require(equal(got.Outcome, backend.Granted, "outcome of a bid right after a release"),
			expect(got.Term > held.Term, got.Term, "a term above %d", held.Term))
		b.release(backend.Released, got.Lease)
	}
}

func releaseTerm(t *Trial, a, b *client) {
	b.release(backend.Released, zero("jobs"), backend.Lease{Election: "never", Term: 7})
	old := a.win("jobs")
	for range 3 {
		a.release(backend.Released, old, backend.Lease{Election: "never", Term: 3}, zero("no"))
	}

	held := a.win("jobs")
	for _, term := range []uint64{old.Term, held.Term - 1, held.Term + 1} {
		late := held
		late.Term = term
		a.release(backend.Released, late)
		held = a.keepAfter(fmt.Sprintf("a release of term %d", term), held)
	}
	require(equal(len(a.list("", 10)), 1, "records of one election that had a leader and two that had none"))
}

func releaseTermZero(t *Trial, a, b *client) {
	a.win("jobs")
	a.release(backend.Released, zero("jobs"))
	now := b.read("jobs")
	require(expect(now.Vacant(), now, "a vacant lease after a release with term 0"))

	held := b.win("jobs")
	for range 2 {
		a.release(backend.Released, zero("jobs"))
		held = b.keepAfter("another's release with term 0", held)
	}
}
