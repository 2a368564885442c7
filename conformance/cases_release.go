package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var releaseCases = []Case{
	{Rule: "X1", Name: "a release frees the lease at once", Run: releaseAtOnce,
		Says: "Release frees the lease at once for any candidate, and readers see another Version. The vacant record keeps the term, the last holder and how its leadership ended, which held[i].End says."},
	{Rule: "X2", Name: "a release ends only its own term", Run: releaseTerm,
		Says: "A Release that names another term does not end the current one, however late it arrives, and returns no error."},
	{Rule: "X3", Name: "a release does not end another's lease", Run: releaseOther, skip: needsExclusive,
		Says: "A Release never ends a lease that another nonce holds."},
	{Rule: "X4", Name: "term 0 releases the caller's lease only", Run: releaseTermZero,
		Says: "Release with term 0 first finds the lease that the backend's nonce holds, and then releases exactly that one. It does not end a later grant to another candidate."},
	{Rule: "X6", Name: "releasing a lease that is not held is no error", Run: releaseNothing,
		Says: "Release returns no error for a lease that is not held: of an unknown election, vacant, already released, or by a client that never bid."},
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
		require(expect(now.Vacant(), "a vacant lease", now), equal("holder", now.Holder, backend.Candidate{}),
			equal("term", now.Term, held.Term), equal("End", now.End, end),
			equal("LastID", now.LastID, "a"), equal("ObserveFor", now.ObserveFor, 0),
			equal("TTL of a vacant lease", now.TTL, 0), equal("Renew of a vacant lease", now.Renew, 0),
			expect(now.Version != held.Version, "another Version", now.Version))

		got := b.bidOn(now)
		require(equal("outcome of a bid right after a release", got.Outcome, backend.Granted),
			expect(got.Term > held.Term, fmt.Sprintf("a term above %d", held.Term), got.Term))
		b.release(backend.Released, got.Lease)
	}
}

func releaseTerm(t *Trial) {
	a := t.client("a")
	old := a.win("jobs")
	a.release(backend.Released, old)
	held := a.win("jobs")

	for _, term := range []uint64{old.Term, held.Term - 1, held.Term + 1} {
		late := held
		late.Term = term
		a.release(backend.Released, late)
		held = a.keepAfter(fmt.Sprintf("a release of term %d", term), held)
	}
}

func releaseOther(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	b.win("other")
	b.release(backend.Released, held)

	ctx, cancel := t.callContext()
	defer cancel()
	forged := held // it names the real holder, like a request of an attacker or a bug
	forged.Holder = a.candidate
	if err := b.Release(ctx, []backend.Held{forged.Held()}); err != nil && !errors.Is(err, backend.ErrInvalid) {
		fail("release of another's lease: expected nil or ErrInvalid, got %w", err)
	}
	a.keep(held)
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

func releaseNothing(t *Trial) {
	fresh, a := t.client("fresh"), t.client("a")
	fresh.release(backend.Released, backend.Lease{Election: "jobs"}, backend.Lease{Election: "never", Term: 7})
	held := a.win("jobs")
	for range 3 {
		a.release(backend.Released, held, backend.Lease{Election: "never", Term: 3}, backend.Lease{Election: "no"})
	}
	records := a.list("", 10)
	require(equal("records of one election that had a leader and two that had none", len(records), 1))
}
