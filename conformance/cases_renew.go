package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

var renewCases = []Case{
	{Rule: "R1", Name: "a renewal is a write with a fresh heartbeat", calls: renewHeartbeat,
		Says: "Each renewal writes a fresh random heartbeat, so that every reader sees another Version, " +
			"and does not change Term. A store that expires leases by itself may keep the Version."},
	{Rule: "R2", Name: "a renewal in another term is refused", calls: renewNotHeld,
		Says: "The store refuses a renewal in another term, and one of a lease that it never granted or " +
			"that was released, even if no other candidate has acquired it, and changes nothing."},
	{Rule: "R3", Name: "a renewal is refused after another grant", calls: renewAfterTakeover,
		needs: []need{exclusive},
		Says:  "The store refuses a renewal after another grant, and does not change that grant."},
	{Rule: "R5", Name: "a renewal is refused after a deposition", calls: renewDeposed,
		Says: "After Depose the store refuses the holder's next renewal, with the request in the answer. " +
			"The holder keeps the lease until it releases it."},
	{Rule: "R8", Name: "a renewal does not shorten the observation time", calls: renewTTL,
		Says: "During a leadership all readers see the TTL and Renew of the winning bid, and an ObserveFor " +
			"of at least that TTL, however long ago it was renewed. No ValidFor exceeds ObserveFor."},
}

func renewHeartbeat(t *Trial, a, b *client) {
	first := a.win("jobs")
	versions := map[string]int{first.Version: 0}
	held := first
	for i := range 50 {
		held = a.keep(held)
		if earlier, twice := versions[held.Version]; twice {
			fail("renewal %d: expected a fresh Version, got %q of renewal %d", i+1, held.Version, earlier)
		}
		versions[held.Version] = i + 1
		b.shows("a renewal", held)
		require(equal(held.Term, first.Term, "term after a renewal"),
			equal(held.Holder, a.candidate, "holder after a renewal"))
	}
}

func renewNotHeld(t *Trial, a, _ *client) {
	never := backend.Lease{Election: "jobs", Holder: a.candidate, Term: 7, TTL: t.TTL, Renew: t.TTL / 3}
	a.cannotKeep("that the store never granted", never)
	now := a.read("jobs")
	require(equal(len(a.list("", 10)), 0, "records after a refused renewal"),
		equal(now.Term, 0, "term"), expect(now.Vacant(), now, "a vacant lease"))

	held := a.win("jobs")
	for _, term := range []uint64{held.Term - 1, held.Term + 1, 1} {
		other := held
		other.Term = term
		a.cannotKeep(fmt.Sprintf("while the lease is held in term %d", held.Term), other)
	}
	require(equal(a.read("jobs").Version, held.Version, "Version after refused renewals"))
	held = a.keep(held)

	a.release(backend.Released, held)
	a.cannotKeep("after a release", held)
	now = a.read("jobs")
	require(expect(now.Vacant(), now, "the lease to stay vacant"))
}

func renewAfterTakeover(t *Trial, a, b *client) {
	old := a.win("jobs")
	a.crash()

	now := b.win("jobs")
	require(expect(now.Term > old.Term, now.Term, "a term above %d after a takeover", old.Term),
		equal(now.End, backend.Failed, "End of the last leadership"), equal(now.LastID, "a", "LastID"))
	if t.Store.Kill == nil {
		a.cannotKeep("after another grant", old)
	}
	b.shows("a refused renewal of the earlier leadership", now)
}

func renewDeposed(t *Trial, a, b *client) {
	held := a.win("jobs")
	deposition := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Depose}
	b.request(deposition)

	got := a.renew(held)[0]
	require(equal(got.Outcome, backend.Refused, "outcome of a deposed holder's renewal"))
	held.Request, held.Version = deposition, got.Version // other leases may have been renewed with it
	require(equal(asRead(got.Lease), asRead(held), "lease in the answer"))
	b.shows("a refused renewal", held)

	a.release(backend.Deposed, held)
	read := b.read("jobs")
	require(expect(read.Vacant(), read, "a vacant lease after the deposed holder has released it"),
		equal(read.End, backend.Deposed, "End of the leadership"))
}

func renewTTL(t *Trial, a, b *client) {
	held := a.win("jobs")
	want := held
	for range 3 {
		got := a.renew(held)[0]
		require(equal(got.Outcome, backend.Granted, "outcome of the renewal"))
		held = got.Lease

		t.sleep(t.TTL / 10) // an older record is observed for as long
		read := b.read("jobs")
		observed := read.ObserveFor
		require(equal(held.TTL, want.TTL, "TTL in the answer"), equal(read.TTL, want.TTL, "TTL read"),
			equal(held.Renew, want.Renew, "Renew in the answer"), equal(read.Renew, want.Renew, "Renew read"))
		if t.Expiry == backend.ByChallengers {
			require(expect(observed >= want.TTL, observed, "an ObserveFor of at least %v", want.TTL),
				expect(got.ValidFor <= observed, got.ValidFor, "a ValidFor up to ObserveFor, %v", observed))
		}
	}
}
