package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

var acquireCases = []Case{
	{Rule: "A1", Name: "a free lease is granted", Run: acquireFree,
		Says: "The store grants a bid for a free lease. The answer and every reader show holder, TTL and Renew byte for byte, and ValidFor is at most the TTL."},
	{Rule: "A2", Name: "a bid for a held lease is refused at once", Run: acquireHeld, skip: needsExclusive,
		Says: "Acquire never waits for a holder to release: the store refuses the bid at once, and the answer holds the current lease."},
	{Rule: "A3", Name: "a bid succeeds only on the expected lease", Run: acquirePinned, skip: needsAll(needsExclusive, needsExpiryByChallengers),
		Says: "The store grants a bid only if the lease still equals Bid.Expected in Term and Version, byte for byte."},
	{Rule: "A4", Name: "a bid after a renewal is refused", Run: acquireRenewed, skip: needsAll(needsExclusive, needsExpiryByChallengers),
		Says: "The store refuses a bid if the holder has renewed the lease since the bidder read it."},
	{Rule: "A5", Name: "the bidder's own leftover is granted again", Run: acquireLeftover,
		Says: "A record that names the bidder does not count as a grant. The store grants a leftover of the bidder's own nonce again with a new term, or releases it; the old term has ended."},
	{Rule: "A6", Name: "the same id is not the same candidate", Run: acquireSameID, skip: needsExclusive,
		Says: "Only the nonce identifies the holder: the store refuses another candidate with the same id, which can neither renew nor release the lease."},
	{Rule: "A7", Name: "one of many bidders wins", Run: acquireConcurrent, skip: needsExclusive,
		Says: "Of any number of concurrent bids for the same lease the store grants exactly one."},
	{Rule: "A8", Name: "answers are in the order of the bids", Run: acquireOrder, skip: needsExclusive,
		Says: "Each bid has its own outcome, and answer i belongs to bid i."},
	{Rule: "A9", Name: "one bad item does not affect the others", Run: acquireBadItem,
		Says: "If the backend cannot handle one item of a batch of thousands, it still handles the others."},
	{Rule: "A10", Name: "slices are neither kept nor changed", Run: acquireSlices,
		Says: "A backend does not change the slices passed in, and does not keep them after the call."},
	{Rule: "A11", Name: "a TTL above the store's limit is invalid", Run: acquireTTLTooLong, skip: func(f facts) string {
		if f.MaxTTL > 0 {
			return "the store states its greatest TTL (Guarantees.MaxTTL), so no manager bids above it"
		}
		return ""
	}, Says: "If only the store knows its greatest TTL, a bid above it fails with ErrInvalid and does not affect the other bids."},
	{Rule: "A12", Name: "the minimum TTL is kept exactly", Run: acquireLeastTTL,
		Says: "Every reader sees a TTL within the Guarantees exactly as the bidder requested it."},
}

func acquireFree(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	l := must(a.read("jobs"))
	require(equal("term before the first leadership", l.Term, 0), expect(l.Vacant(), "a vacant lease", l))
	t.sleep(max(l.ObserveFor, 0))

	bid := a.bid(l)
	bid.Renew = t.TTL / 4
	got := must(a.acquire(bid))[0]
	require(equal("outcome of a bid for a free lease", got.Outcome, backend.Granted))
	read := must(b.read("jobs"))

	check := func(who string, l backend.Lease) error {
		return errors.Join(
			equal(who+": election", l.Election, "jobs"), equal(who+": holder", l.Holder, a.candidate),
			equal(who+": TTL", l.TTL, t.TTL), equal(who+": Renew", l.Renew, t.TTL/4),
			expect(l.Term > 0, who+": a term above 0", l.Term), expect(l.Version != "" && len(l.Version) <= 600, who+": a Version of 1 to 600 bytes", l.Version),
		)
	}
	require(check("winner", got.Lease), check("reader", read),
		equal("term that the reader sees", read.Term, got.Term), equal("Version that the reader sees", read.Version, got.Version),
		expect(got.ValidFor > 0 && got.ValidFor <= t.TTL, fmt.Sprintf("a ValidFor above 0 and at most the TTL of %v", t.TTL), got.ValidFor))
	if t.Expiry != backend.ByChallengers {
		return nil
	}
	return errors.Join(equal("ValidFor where challengers expire the lease", got.ValidFor, t.TTL),
		expect(read.ObserveFor >= t.TTL, fmt.Sprintf("an ObserveFor of at least the holder's TTL of %v", t.TTL), read.ObserveFor))
}

// refusedBid returns an error unless a bid that could lead to a second leader was refused.
func refusedBid(rule, what string, a backend.Answer) error {
	if a.Outcome == backend.Granted {
		return violation(rule, "a bid is granted only on the lease that it expects", "%s was granted: %+v", what, a.Lease)
	}
	return equal("outcome of "+what, a.Outcome, backend.Refused)
}

func acquireHeld(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))

	began := time.Now()
	got := must(b.bidOn(backend.Lease{Election: "jobs"}))
	took := time.Since(began)

	_, err := a.keep(held)
	return errors.Join(err,
		equal("outcome of a bid for a held lease", got.Outcome, backend.Refused),
		expect(took <= t.TTL/4+t.Late, "an answer at once", took),
		equal("holder in the answer", got.Holder, a.candidate), equal("term in the answer", got.Term, held.Term), equal("Version in the answer", got.Version, held.Version))
}

func acquirePinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	expected := must(b.read("jobs"))
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
		require(refusedBid("A3", "a bid that expects the lease with "+change.what, must(b.bidOn(pinned))))
	}

	now := must(b.read("jobs"))
	got := must(b.bidOn(expected))
	return errors.Join(equal("Version after refused bids", now.Version, held.Version),
		equal("outcome of a bid that expects exactly the observed lease", got.Outcome, backend.Granted))
}

func acquireRenewed(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	expected := must(b.read("jobs"))
	t.sleep(expected.ObserveFor)

	held = must(a.keep(held))
	require(refusedBid("A4", "a bid for a lease that was renewed meanwhile", must(b.bidOn(expected))))
	must(a.keep(held))
	return nil
}

func acquireLeftover(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old := must(a.win("jobs"))
	got := must(a.bidOn(backend.Lease{Election: "jobs"})) // like a bidder whose first answer was lost
	now := must(b.read("jobs"))

	switch got.Outcome {
	case backend.Granted:
		require(expect(got.Term > old.Term, fmt.Sprintf("a term above %d for a leftover that was granted again", old.Term), got.Term),
			expect(got.Version != old.Version, "another Version", got.Version), equal("term that readers see", now.Term, got.Term))
	case backend.Refused:
		require(expect(now.Holder.Nonce != a.candidate.Nonce, "the store to release a leftover that it does not grant again", now))
	default:
		return fmt.Errorf("bid for the bidder's own leftover: expected granted or refused, got %v: %v", got.Outcome, got.Err)
	}
	return a.cannotKeep("after the bid ended it", old)
}

func acquireSameID(t *Trial) error {
	a, b := t.client("twin"), t.client("twin")
	held := must(a.win("jobs"))

	got := must(b.bidOn(backend.Lease{Election: "jobs"}))
	mine := held
	mine.Holder = b.candidate
	require(equal("outcome of a bid by another candidate with the holder's id", got.Outcome, backend.Refused))
	require(b.cannotKeep("by another candidate with the same id", mine))
	require(b.release(backend.Released, held))

	must(a.keep(held))
	return nil
}

func acquireConcurrent(t *Trial) error {
	const crowd = 8
	var clients []*client
	for i := range crowd {
		clients = append(clients, t.client(fmt.Sprintf("c%d", i)))
	}
	for round := range t.scaledCount(30) {
		name := fmt.Sprintf("jobs%d", round)
		expected := must(clients[0].read(name))
		t.sleep(max(expected.ObserveFor, 0))

		var mu sync.Mutex
		var won []backend.Lease
		var errs []error
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() {
				got, err := c.bidOn(expected)
				mu.Lock()
				defer mu.Unlock()
				if errs = append(errs, err); got.Outcome == backend.Granted {
					won = append(won, got.Lease)
				}
			})
		}
		wg.Wait()

		require(errs...)
		if len(won) == 0 {
			return fmt.Errorf("round %d: expected one of %d bids to be granted, got none", round, crowd)
		}
		if len(won) > 1 {
			return violation("A7", "one of many bidders wins", "round %d: expected one of %d bids to be granted, got %d: %+v", round, crowd, len(won), won)
		}
		now := must(clients[0].read(name))
		require(equal("holder that readers see", now.Holder, won[0].Holder), equal("term", now.Term, won[0].Term))
	}
	return nil
}

func acquireTTLTooLong(t *Trial) error {
	a := t.client("a")
	bids := must(a.bidsFor("one", "other"))
	bids[0].TTL = 10000 * time.Hour

	answers := must(a.acquire(bids...))
	long, usual := answers[0], answers[1]
	return errors.Join(
		expect(long.Outcome == backend.Granted || errors.Is(long.Err, backend.ErrInvalid), "a TTL of 10000 h to be granted or ErrInvalid", fmt.Sprint(long.Outcome, ": ", long.Err)),
		equal("outcome of the bid beside it", usual.Outcome, backend.Granted))
}

func acquireLeastTTL(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	require(expect(t.MinTTL >= 1, "Guarantees.MinTTL of at least 1", t.MinTTL))

	least := t.MinTTL
	l := must(a.winWith("jobs", func(b *backend.Bid) { b.TTL, b.Renew = least, least/2 }))
	read := must(b.read("jobs"))
	return errors.Join(equal("TTL in the answer", l.TTL, least), equal("TTL read", read.TTL, least))
}
