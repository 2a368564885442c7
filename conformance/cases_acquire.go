package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

var acquireCases = []Case{
	{Rule: "A1", Name: "a free lease is granted", Run: acquireFree,
		Says: "The store grants a bid for a free lease. The answer and every reader show holder, TTL and Renew byte for byte, and ValidFor is at most the TTL. The least TTL of the Guarantees is kept as exactly."},
	{Rule: "A2", Name: "a held lease is its holder's alone", Run: acquireHeld, needs: []need{exclusive},
		Says: "Acquire never waits for a holder to release: the store refuses the bid at once, and the answer holds the current lease. Only the nonce identifies the holder: another candidate, even with the same id, can neither renew nor release the lease."},
	{Rule: "A3", Name: "a bid succeeds only on the expected lease", Run: acquirePinned, needs: []need{exclusive, byChallengers},
		Says: "The store grants a bid only if the lease still equals Bid.Expected in Term and Version, byte for byte. So it refuses a bid if the holder has renewed the lease since the bidder read it."},
	{Rule: "A5", Name: "the bidder's own leftover is granted again", Run: acquireLeftover,
		Says: "A record that names the bidder does not count as a grant. The store grants a leftover of the bidder's own nonce again with a new term, or releases it; the old term has ended."},
	{Rule: "A7", Name: "one of many bidders wins", Run: acquireConcurrent, needs: []need{exclusive},
		Says: "Of any number of concurrent bids for the same lease the store grants exactly one."},
	{Rule: "A8", Name: "answers are in the order of the bids", Run: acquireOrder, needs: []need{exclusive},
		Says: "Each bid and each renewal has its own outcome, and answer i belongs to item i."},
	{Rule: "A9", Name: "one bad item does not affect the others", Run: acquireBadItem,
		Says: "If the backend cannot handle one item of a batch of thousands, it still handles the others. When Release returns nil, none of its leases is held, however many they are."},
}

func acquireFree(t *Trial) {
	a, b := t.client("a"), t.client("b")
	l := a.read("jobs")
	require(equal("term before the first leadership", l.Term, 0), expect(l.Vacant(), "a vacant lease", l))
	t.sleep(max(l.ObserveFor, 0))

	bid := a.bid(l)
	bid.Renew = t.TTL / 4
	got := a.acquire(bid)[0]
	require(equal("outcome of a bid for a free lease", got.Outcome, backend.Granted))
	read := b.read("jobs")

	require(equal("election", got.Election, "jobs"), equal("holder", got.Holder, a.candidate),
		equal("TTL", got.TTL, t.TTL), equal("Renew", got.Renew, t.TTL/4),
		expect(got.Term > 0, "a term above 0", got.Term), expect(got.Version != "" && len(got.Version) <= 600, "a Version of 1 to 600 bytes", got.Version),
		equal("lease that a reader sees", asRead(read), asRead(got.Lease)),
		expect(got.ValidFor > 0 && got.ValidFor <= t.TTL, fmt.Sprintf("a ValidFor above 0 and at most the TTL of %v", t.TTL), got.ValidFor))
	if t.Expiry == backend.ByChallengers {
		require(equal("ValidFor where challengers expire the lease", got.ValidFor, t.TTL),
			expect(read.ObserveFor >= t.TTL, fmt.Sprintf("an ObserveFor of at least the holder's TTL of %v", t.TTL), read.ObserveFor))
	}

	least := a.winWith("least", func(b *backend.Bid) { b.TTL, b.Renew = t.MinTTL, t.MinTTL/2 })
	require(equal("least TTL in the answer", least.TTL, t.MinTTL), equal("least TTL read", b.read("least").TTL, t.MinTTL))
}

// refusedBid ends the case unless a bid that could lead to a second leader was refused.
func refusedBid(rule, what string, a backend.Answer) {
	if a.Outcome == backend.Granted {
		require(violation(rule, "a bid is granted only on the lease that it expects", "%s was granted: %+v", what, a.Lease))
	}
	require(equal("outcome of "+what, a.Outcome, backend.Refused))
}

func acquireHeld(t *Trial) {
	a, b := t.client("twin"), t.client("twin")
	held := a.win("jobs")

	began := time.Now()
	got := b.bidOn(backend.Lease{Election: "jobs"})
	took := time.Since(began)
	require(equal("outcome of a bid for a held lease", got.Outcome, backend.Refused),
		expect(took <= t.TTL/4+t.Late, "an answer at once", took),
		equal("lease in the answer", asRead(got.Lease), asRead(held)))

	mine := held
	mine.Holder = b.candidate
	b.cannotKeep("by another candidate with the same id", mine)
	b.release(backend.Released, held)
	held = a.keepAfter("another candidate's release", held)

	forged := held // it names the real holder, like a request of an attacker or a bug
	err := try(func() { b.releaseAs(a.candidate, backend.Released, forged) })
	require(expect(err == nil || errors.Is(err, backend.ErrInvalid), "nil or ErrInvalid for the release of another's lease", err))
	a.keepAfter("a release by another client in its name", held)
}

func acquirePinned(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	expected := b.read("jobs")
	t.sleep(expected.ObserveFor)

	for _, change := range []struct {
		what string
		edit func(*backend.Lease)
	}{
		{"another term", func(l *backend.Lease) { l.Term++ }},
		{"an older term", func(l *backend.Lease) { l.Term-- }},
		{"another Version", func(l *backend.Lease) { l.Version = string(l.Version[0]^1) + l.Version[1:] }},
		{"a longer Version", func(l *backend.Lease) { l.Version += "x" }},
		{"a shorter Version", func(l *backend.Lease) { l.Version = l.Version[:len(l.Version)-1] }},
		{"no Version", func(l *backend.Lease) { l.Version = "" }},
		{"only a name", func(l *backend.Lease) { *l = backend.Lease{Election: "jobs"} }},
	} {
		pinned := expected
		change.edit(&pinned)
		refusedBid("A3", "a bid that expects the lease with "+change.what, b.bidOn(pinned))
	}

	require(equal("Version after refused bids", b.read("jobs").Version, held.Version))
	held = a.keep(held)
	refusedBid("A3", "a bid for a lease that was renewed meanwhile", b.bidOn(expected))
	a.keep(held)

	expected = b.read("jobs")
	t.sleep(expected.ObserveFor)
	got := b.bidOn(expected)
	require(equal("outcome of a bid that expects exactly the observed lease", got.Outcome, backend.Granted))
}

func acquireLeftover(t *Trial) {
	a, b := t.client("a"), t.client("b")
	old := a.win("jobs")
	got := a.bidOn(backend.Lease{Election: "jobs"}) // like a bidder whose first answer was lost
	now := b.read("jobs")

	switch got.Outcome {
	case backend.Granted:
		require(expect(got.Term > old.Term, fmt.Sprintf("a term above %d for a leftover that was granted again", old.Term), got.Term),
			expect(got.Version != old.Version, "another Version", got.Version), equal("term that readers see", now.Term, got.Term))
	case backend.Refused:
		require(expect(now.Holder.Nonce != a.candidate.Nonce, "the store to release a leftover that it does not grant again", now))
	default:
		fail("bid for the bidder's own leftover: expected granted or refused, got %v: %v", got.Outcome, got.Err)
	}
	a.cannotKeep("after the bid ended it", old)
}

func acquireConcurrent(t *Trial) {
	const crowd = 8
	var clients []*client
	for i := range crowd {
		clients = append(clients, t.client(fmt.Sprintf("c%d", i)))
	}
	for round := range t.scaledCount(30) {
		name := fmt.Sprintf("jobs%d", round)
		expected := clients[0].read(name)
		t.sleep(max(expected.ObserveFor, 0))

		answers, errs := make([]backend.Answer, crowd), make([]error, crowd)
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { errs[i] = try(func() { answers[i] = c.bidOn(expected) }) })
		}
		wg.Wait()
		require(errs...)

		won := slices.DeleteFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Granted })
		require(expect(len(won) > 0, fmt.Sprintf("one of %d bids to be granted in round %d", crowd, round), "none"))
		if len(won) > 1 {
			require(violation("A7", "one of many bidders wins", "round %d: expected one of %d bids to be granted, got %d: %+v", round, crowd, len(won), won))
		}
		now := clients[0].read(name)
		require(equal("holder that readers see", now.Holder, won[0].Holder), equal("term", now.Term, won[0].Term))
	}
}
