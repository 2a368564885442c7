package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var releaseCases = []Case{
	{Rule: "X1", Name: "a release frees the lease at once", Run: releaseAtOnce,
		Says: "Release frees the lease at once for any candidate. The vacant record keeps the term, the last holder and how its leadership ended."},
	{Rule: "X2", Name: "a release ends only its own term", Run: releaseTerm,
		Says: "A Release that names another term does not end the current one, however late it arrives, and returns no error."},
	{Rule: "X3", Name: "a release does not end another's lease", Run: releaseOther, skip: needsExclusive,
		Says: "A Release never ends a lease that another nonce holds."},
	{Rule: "X4", Name: "term 0 releases the caller's lease", Run: releaseTermZero,
		Says: "Release with term 0 releases the lease that the backend's nonce holds."},
	{Rule: "X5", Name: "term 0 does not release another's lease", Run: releaseTermZeroOfAnother, skip: needsExclusive,
		Says: "Release with term 0 first finds the lease of the backend's nonce and then releases exactly that one. It does not end a later grant to another candidate."},
	{Rule: "X6", Name: "releasing a lease that is not held is no error", Run: releaseNothing,
		Says: "Release returns no error for a lease that is not held: of an unknown election, vacant, already released, or by a client that never bid."},
	{Rule: "X7", Name: "the record keeps the reason of a release", Run: releaseReason,
		Says: "The record keeps held[i].End, which says how the leadership ended."},
	{Rule: "X8", Name: "a release writes a fresh heartbeat", Run: releaseHeartbeat,
		Says: "A release writes a fresh random heartbeat, so that readers see another Version."},
	{Rule: "X9", Name: "a release keeps the request", Run: releaseRequest,
		Says: "A release does not clear the request beside the lease; only the next grant does."},
	{Rule: "X10", Name: "one call releases many leases", Run: releaseMany,
		Says: "When Release returns nil, none of its leases is held, however many they are."},
}

func releaseAtOnce(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	require(a.release(backend.Released, held))

	now := must(b.read("jobs"))
	require(expect(now.Vacant(), "a vacant lease", now), equal("holder", now.Holder, backend.Candidate{}),
		equal("term", now.Term, held.Term), equal("End", now.End, backend.Released),
		equal("LastID", now.LastID, "a"), equal("ObserveFor", now.ObserveFor, 0),
		equal("TTL of a vacant lease", now.TTL, 0), equal("Renew of a vacant lease", now.Renew, 0))

	got := must(b.bidOn(now))
	return errors.Join(equal("outcome of a bid right after a release", got.Outcome, backend.Granted),
		expect(got.Term > held.Term, fmt.Sprintf("a term above %d", held.Term), got.Term))
}

func releaseTerm(t *Trial) error {
	a := t.client("a")
	old := must(a.win("jobs"))
	require(a.release(backend.Released, old))
	held := must(a.win("jobs"))

	for _, term := range []uint64{old.Term, held.Term - 1, held.Term + 1} {
		late := held
		late.Term = term
		require(a.release(backend.Released, late))
		held = must(a.keepAfter(fmt.Sprintf("a release of term %d", term), held))
	}
	return nil
}

func releaseOther(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	must(b.win("other"))
	require(b.release(backend.Released, held))

	ctx, cancel := t.callContext()
	defer cancel()
	forged := held // it names the real holder, like a request of an attacker or a bug
	forged.Holder = a.candidate
	if err := b.Release(ctx, []backend.Held{forged.Held()}); err != nil && !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("release of another's lease: expected nil or ErrInvalid, got %w", err)
	}
	must(a.keep(held))
	return nil
}

func releaseTermZero(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	must(a.win("jobs"))
	require(a.release(backend.Released, backend.Lease{Election: "jobs"}))
	now := must(b.read("jobs"))
	return expect(now.Vacant(), "a vacant lease after a release with term 0", now)
}

func releaseTermZeroOfAnother(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	require(a.release(backend.Released, must(a.win("jobs"))))
	held := must(b.win("jobs"))
	for range 2 {
		require(a.release(backend.Released, backend.Lease{Election: "jobs"}))
		held = must(b.keepAfter("another's release with term 0", held))
	}
	return nil
}

func releaseNothing(t *Trial) error {
	fresh, a := t.client("fresh"), t.client("a")
	if err := fresh.release(backend.Released, backend.Lease{Election: "jobs"}, backend.Lease{Election: "never", Term: 7}); err != nil {
		return fmt.Errorf("by a client that never bid: %w", err)
	}
	held := must(a.win("jobs"))
	for i := range 3 {
		if err := a.release(backend.Released, held, backend.Lease{Election: "never", Term: 3}, backend.Lease{Election: "no"}); err != nil {
			return fmt.Errorf("release number %d: %w", i+1, err)
		}
	}
	records := must(a.list("", 10))
	return equal("records of one election that had a leader and two that had none", len(records), 1)
}

func releaseReason(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, end := range []backend.End{backend.Released, backend.Failed, backend.Deposed} {
		held := must(a.win("jobs"))
		require(a.release(end, held))
		now := must(b.read("jobs"))
		require(equal("End", now.End, end), equal("LastID", now.LastID, "a"))
	}
	return nil
}

func releaseHeartbeat(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	seen := must(b.read("jobs"))
	require(a.release(backend.Released, held))
	changed := must(b.observe(seen))
	require(equal("changes after a release", len(changed), 1))
	return expect(changed[0].Version != held.Version, "another Version", changed[0].Version)
}

func releaseRequest(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	request := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.candidate.Nonce}
	require(b.request(request))
	require(a.release(backend.Released, held))
	now := must(a.read("jobs"))
	return equal("request after the release", now.Request, request)
}

func releaseMany(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	names := numbered("jobs", t.scaledCount(1200))
	var held []backend.Lease
	for _, got := range must(a.acquire(must(a.bidsFor(names...))...)) {
		held = append(held, got.Lease)
	}
	require(a.release(backend.Released, held...))

	now := must(b.observe(zeroLeases(names...)...))
	for _, l := range now {
		if !l.Vacant() || l.Term == 0 {
			return fmt.Errorf("after the release of %d leases: expected all to be vacant with a term, got %+v", len(held), l)
		}
	}
	return equal("leases read", len(now), len(held))
}
