package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

var renewCases = []Case{
	{Rule: "R1", Name: "a renewal is a write with a fresh heartbeat", Run: renewHeartbeat,
		Says: "Each renewal writes a fresh random heartbeat, so that every reader sees another Version, and does not change Term. A store that expires leases by itself may keep the Version."},
	{Rule: "R2", Name: "a renewal in another term is refused", Run: renewNotHeld,
		Says: "The store refuses a renewal in another term, and one of a lease that it never granted or that was released, even if no other candidate has acquired it, and changes nothing."},
	{Rule: "R3", Name: "a renewal is refused after another grant", Run: renewAfterTakeover, needs: []need{exclusive},
		Says: "The store refuses a renewal after another grant, and does not change that grant."},
	{Rule: "R5", Name: "a renewal is refused after a deposition", Run: renewDeposed,
		Says: "After Depose the store refuses the holder's next renewal, with the request in the answer. The holder keeps the lease until it releases it."},
	{Rule: "R8", Name: "a renewal does not shorten the observation time", Run: renewTTL,
		Says: "During a leadership all readers see the TTL and Renew of the winning bid, and an ObserveFor of at least that TTL, however long ago the lease was renewed. No ValidFor exceeds that ObserveFor."},
}

func renewHeartbeat(t *Trial) {
	a, b := t.client("a"), t.client("b")
	first := a.win("jobs")
	versions := map[string]int{first.Version: 0}
	held := first
	for i := range 50 {
		held = a.keep(held)
		if earlier, twice := versions[held.Version]; twice {
			fail("renewal %d: expected a fresh Version, got %q, that of renewal %d", i+1, held.Version, earlier)
		}
		versions[held.Version] = i + 1
		b.shows("a renewal", held)
		require(equal("term after a renewal", held.Term, first.Term), equal("holder after a renewal", held.Holder, a.candidate))
	}
}

func renewNotHeld(t *Trial) {
	a := t.client("a")
	never := backend.Lease{Election: "jobs", Holder: a.candidate, Term: 7, TTL: t.TTL, Renew: t.TTL / 3}
	a.cannotKeep("that the store never granted", never)
	now := a.read("jobs")
	require(equal("records after a refused renewal", len(a.list("", 10)), 0), equal("term", now.Term, 0), expect(now.Vacant(), "a vacant lease", now))

	held := a.win("jobs")
	for _, term := range []uint64{held.Term - 1, held.Term + 1, 1} {
		other := held
		other.Term = term
		a.cannotKeep(fmt.Sprintf("while the lease is held in term %d", held.Term), other)
	}
	require(equal("Version after refused renewals", a.read("jobs").Version, held.Version))
	held = a.keep(held)

	a.release(backend.Released, held)
	a.cannotKeep("after a release", held)
	now = a.read("jobs")
	require(expect(now.Vacant(), "the lease to stay vacant", now))
}

func renewAfterTakeover(t *Trial) {
	a, b := t.client("a"), t.client("b")
	old := a.win("jobs")
	a.crash()

	now := b.win("jobs")
	require(expect(now.Term > old.Term, fmt.Sprintf("a term above %d after a takeover", old.Term), now.Term),
		equal("End of the last leadership", now.End, backend.Failed), equal("LastID", now.LastID, "a"))
	if t.Store.Kill == nil {
		a.cannotKeep("after another grant", old)
	}
	b.shows("a refused renewal of the earlier leadership", now)
}

func renewDeposed(t *Trial) {
	a, op := t.client("a"), t.client("operator")
	held := a.win("jobs")
	deposition := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Depose}
	op.request(deposition)

	got := a.renew(held)[0]
	require(equal("outcome of a deposed holder's renewal", got.Outcome, backend.Refused))
	held.Request, held.Version = deposition, got.Version // the holder's other leases may have been renewed with it
	require(equal("lease in the answer", asRead(got.Lease), asRead(held)))
	op.shows("a refused renewal", held)

	a.release(backend.Deposed, held)
	read := op.read("jobs")
	require(expect(read.Vacant(), "a vacant lease after the deposed holder has released it", read),
		equal("End of the leadership", read.End, backend.Deposed))
}

func renewTTL(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	want := held
	for range 3 {
		got := a.renew(held)[0]
		require(equal("outcome of the renewal", got.Outcome, backend.Granted))
		held = got.Lease

		t.sleep(t.TTL / 10) // an older record is observed for as long
		read := b.read("jobs")
		require(equal("TTL in the answer", held.TTL, want.TTL), equal("Renew in the answer", held.Renew, want.Renew),
			equal("TTL read", read.TTL, want.TTL), equal("Renew read", read.Renew, want.Renew))
		if t.Expiry == backend.ByChallengers {
			require(expect(read.ObserveFor >= want.TTL, fmt.Sprintf("an ObserveFor of at least %v", want.TTL), read.ObserveFor),
				expect(got.ValidFor <= read.ObserveFor, fmt.Sprintf("a ValidFor of at most ObserveFor, %v", read.ObserveFor), got.ValidFor))
		}
	}
}
