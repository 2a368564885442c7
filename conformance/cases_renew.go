package conformance

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

var renewCases = []Case{
	{Rule: "R1", Name: "a renewal is a write with a fresh heartbeat", Run: renewHeartbeat,
		Says: "Each renewal writes a fresh random heartbeat, so that every reader sees another Version, and does not change Term. A store that expires leases by itself may keep the Version."},
	{Rule: "R2", Name: "a renewal in another term is refused", Run: renewTerm,
		Says: "The store refuses a renewal in another term, and changes nothing."},
	{Rule: "R3", Name: "a renewal is refused after another grant", Run: renewAfterTakeover, skip: needsExclusive,
		Says: "The store refuses a renewal after another grant, and does not change that grant."},
	{Rule: "R4", Name: "a renewal does not revive a released lease", Run: renewReleased,
		Says: "A renewal does not revive a released lease, even if no other candidate has acquired it."},
	{Rule: "R5", Name: "a renewal is refused after a deposition", Run: renewDeposed,
		Says: "After Depose the store refuses the holder's next renewal, with the request in the answer. The holder keeps the lease until it releases it."},
	{Rule: "R6", Name: "a renewal's answer carries the request", Run: renewRequest,
		Says: "The answer to a renewal carries the request beside the lease."},
	{Rule: "R7", Name: "a lease that was never granted is not renewed", Run: renewNeverGranted,
		Says: "The store refuses to renew a lease that it never granted, and writes no record."},
	{Rule: "R8", Name: "a renewal does not shorten the observation time", Run: renewTTL,
		Says: "During a leadership all readers see the TTL and Renew of the winning bid, and an ObserveFor of at least that TTL, however long ago the lease was renewed. No ValidFor exceeds that ObserveFor."},
	{Rule: "R9", Name: "renewals are answered in order", Run: renewOrder, skip: needsExclusive,
		Says: "Each renewal has its own outcome, and answer i belongs to lease i."},
	{Rule: "R10", Name: "a deleted record is not renewed", Run: renewDeleted, Fault: FaultDeleteRecord,
		Says: "The store refuses a renewal after the record was deleted."},
}

func renewHeartbeat(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	first := must(a.win("jobs"))
	versions := map[string]int{first.Version: 0}
	held := first
	for i := range 50 {
		held = must(a.keep(held))
		if earlier, twice := versions[held.Version]; twice {
			return fmt.Errorf("renewal %d: expected a fresh Version, got %q, that of renewal %d", i+1, held.Version, earlier)
		}
		versions[held.Version] = i + 1
		read := must(b.read("jobs"))
		require(equal("Version that readers see", read.Version, held.Version),
			equal("term after a renewal", read.Term, first.Term),
			equal("holder after a renewal", read.Holder, a.candidate))
	}
	return nil
}

func renewTerm(t *Trial) error {
	a := t.client("a")
	held := must(a.win("jobs"))
	for _, term := range []uint64{held.Term - 1, held.Term + 1, 1} {
		other := held
		other.Term = term
		require(a.cannotKeep(fmt.Sprintf("while the lease is held in term %d", held.Term), other))
	}

	now := must(a.read("jobs"))
	must(a.keep(held))
	return equal("Version after refused renewals", now.Version, held.Version)
}

func renewAfterTakeover(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old := must(a.win("jobs"))
	a.crash()

	now := must(b.win("jobs"))
	require(expect(now.Term > old.Term, fmt.Sprintf("a term above %d after a takeover", old.Term), now.Term),
		equal("End of the last leadership", now.End, backend.Failed), equal("LastID", now.LastID, "a"))
	if t.Store.Kill == nil {
		require(a.cannotKeep("after another grant", old))
	}
	read := must(b.read("jobs"))
	return errors.Join(equal("Version of the later grant", read.Version, now.Version),
		equal("holder of the later grant", read.Holder, b.candidate))
}

func renewReleased(t *Trial) error {
	a := t.client("a")
	held := must(a.win("jobs"))
	released := held
	require(a.release(backend.Released, held))
	require(a.cannotKeep("after a release", released))
	now := must(a.read("jobs"))
	return expect(now.Vacant(), "the lease to stay vacant", now)
}

func renewDeposed(t *Trial) error {
	a, op := t.client("a"), t.client("operator")
	held := must(a.win("jobs"))
	require(op.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Depose}))

	got := must(a.renew(held))[0]
	read := must(op.read("jobs"))
	require(equal("outcome of a deposed holder's renewal", got.Outcome, backend.Refused),
		equal("request in the answer", got.Request.Kind, backend.Depose), equal("term of the request", got.Request.Term, held.Term),
		equal("holder in the answer", got.Holder, a.candidate),
		equal("holder before the release", read.Holder, a.candidate), equal("Term before the release", read.Term, held.Term))

	require(a.release(backend.Deposed, held))
	read = must(op.read("jobs"))
	return errors.Join(expect(read.Vacant(), "a vacant lease after the deposed holder has released it", read),
		equal("End of the leadership", read.End, backend.Deposed))
}

func renewRequest(t *Trial) error {
	a, op := t.client("a"), t.client("operator")
	held := must(a.win("jobs"))
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: op.candidate.Nonce},
	} {
		require(op.request(request))
		held = must(a.keep(held))
		require(equal("request in the answer to a renewal", held.Request, request))
	}
	return nil
}

func renewNeverGranted(t *Trial) error {
	a := t.client("a")
	require(a.cannotKeep("that the store never granted", backend.Lease{Election: "jobs", Holder: a.candidate, Term: 7, TTL: t.TTL, Renew: t.TTL / 3}))
	records := must(a.list("", 10))
	now := must(a.read("jobs"))
	return errors.Join(equal("records after a refused renewal", len(records), 0),
		equal("term", now.Term, 0),
		expect(now.Vacant(), "a vacant lease", now))
}

func renewTTL(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	want := held
	for range 3 {
		got := must(a.renew(held))[0]
		require(equal("outcome of the renewal", got.Outcome, backend.Granted))
		held = got.Lease

		t.sleep(t.TTL / 10) // an older record is observed for as long
		read := must(b.read("jobs"))
		require(equal("TTL in the answer", held.TTL, want.TTL), equal("Renew in the answer", held.Renew, want.Renew),
			equal("TTL read", read.TTL, want.TTL), equal("Renew read", read.Renew, want.Renew))
		if t.Expiry == backend.ByChallengers {
			require(expect(read.ObserveFor >= want.TTL, fmt.Sprintf("an ObserveFor of at least %v", want.TTL), read.ObserveFor),
				expect(got.ValidFor <= read.ObserveFor, fmt.Sprintf("a ValidFor of at most ObserveFor, %v", read.ObserveFor), got.ValidFor))
		}
	}
	return nil
}

func renewOrder(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var held []backend.Lease
	want := map[string]backend.Outcome{}
	for i := range 30 {
		name := fmt.Sprintf("jobs%02d", 97*i%30)
		l := must(a.win(name))
		want[name] = backend.Granted
		if i%4 == 2 {
			want[name] = backend.Refused
			require(a.release(backend.Released, l))
			must(b.win(name))
		}
		held = append(held, l)
	}

	for i, got := range must(a.renew(held...)) {
		name := held[i].Election
		require(equal(fmt.Sprintf("election of answer %d", i), got.Election, name), equal("outcome for "+name, got.Outcome, want[name]))
		if want[name] == backend.Refused {
			require(equal("holder of "+name+" in the refusal", got.Holder, b.candidate))
		}
	}
	return nil
}

func renewDeleted(t *Trial) error {
	a := t.client("a")
	held := must(a.win("jobs"))
	require(t.inject(FaultDeleteRecord, true, "jobs"))
	return a.cannotKeep("after its record was deleted", held)
}
