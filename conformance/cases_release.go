package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

var releaseCases = []Case{
	{Rule: "X1", Name: "a release frees the lease at once", Run: releaseAtOnce,
		Says: "Release frees the lease at once for any candidate, and readers see another Version. The vacant record keeps the term, the last holder and how its leadership ended, which held[i].End says."},
	{Rule: "X2", Name: "a release ends only its own term", Run: releaseTerm,
		Says: "A Release that names another term does not end the current one, however late it arrives. What is not held is released without an error: of an unknown election, vacant, already released, or by a client that never bid."},
	{Rule: "X4", Name: "term 0 releases the caller's lease only", Run: releaseTermZero,
		Says: "Release with term 0 first finds the lease that the backend's nonce holds, and then releases exactly that one. It does not end a later grant to another candidate."},
}

func releaseAtOnce(t *Trial) {
	a, b := t.client("a"), t.client("b")
	for _, end := range []backend.End{backend.Released, backend.Failed, backend.Deposed} {
		held := a.win("jobs")
		seen := b.read("jobs")
		a.release(end, held)

		changed := b.observe(seen)
		require(equal("changes after a release", len(changed), 1))
		now := changed[0]
		vacant := backend.Lease{Election: "jobs", Term: held.Term, Version: now.Version, End: end, LastID: "a"}
		require(equal("lease", asRead(now), vacant), equal("ObserveFor", now.ObserveFor, 0),
			expect(now.Version != held.Version, "another Version", now.Version))

		got := b.bidOn(now)
		require(equal("outcome of a bid right after a release", got.Outcome, backend.Granted),
			expect(got.Term > held.Term, fmt.Sprintf("a term above %d", held.Term), got.Term))
		b.release(backend.Released, got.Lease)
	}
}

func releaseTerm(t *Trial) {
	fresh, a := t.client("fresh"), t.client("a")
	fresh.release(backend.Released, backend.Lease{Election: "jobs"}, backend.Lease{Election: "never", Term: 7})
	old := a.win("jobs")
	for range 3 {
		a.release(backend.Released, old, backend.Lease{Election: "never", Term: 3}, backend.Lease{Election: "no"})
	}

	held := a.win("jobs")
	for _, term := range []uint64{old.Term, held.Term - 1, held.Term + 1} {
		late := held
		late.Term = term
		a.release(backend.Released, late)
		held = a.keepAfter(fmt.Sprintf("a release of term %d", term), held)
	}
	require(equal("records of one election that had a leader and two that had none", len(a.list("", 10)), 1))
}

func releaseTermZero(t *Trial) {
	a, b := t.client("a"), t.client("b")
	a.win("jobs")
	a.release(backend.Released, backend.Lease{Election: "jobs"})
	now := b.read("jobs")
	require(expect(now.Vacant(), "a vacant lease after a release with term 0", now))

	held := b.win("jobs")
	for range 2 {
		a.release(backend.Released, backend.Lease{Election: "jobs"})
		held = b.keepAfter("another's release with term 0", held)
	}
}
