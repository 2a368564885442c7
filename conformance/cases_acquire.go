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
	l, err := a.read("jobs")
	if err != nil {
		return err
	}
	if err := errors.Join(equal("term before the first leadership", l.Term, 0), expect(l.Vacant(), "a vacant lease", l)); err != nil {
		return err
	}
	t.sleep(max(l.ObserveFor, 0))
	bid := a.bid(l)
	bid.Renew = t.TTL / 4
	answers, err := a.acquire(bid)
	if err != nil {
		return err
	}
	got := answers[0]
	if err := equal("outcome of a bid for a free lease", got.Outcome, backend.Granted); err != nil {
		return err
	}
	read, err := b.read("jobs")
	if err != nil {
		return err
	}
	check := func(who string, l backend.Lease) error {
		return errors.Join(
			equal(who+": election", l.Election, "jobs"), equal(who+": holder", l.Holder, a.candidate),
			equal(who+": TTL", l.TTL, t.TTL), equal(who+": Renew", l.Renew, t.TTL/4),
			expect(l.Term > 0, who+": a term above 0", l.Term), expect(l.Version != "" && len(l.Version) <= 600, who+": a Version of 1 to 600 bytes", l.Version),
		)
	}
	err = errors.Join(check("winner", got.Lease), check("reader", read),
		equal("term that the reader sees", read.Term, got.Term), equal("Version that the reader sees", read.Version, got.Version),
		expect(got.ValidFor > 0 && got.ValidFor <= t.TTL, fmt.Sprintf("a ValidFor above 0 and at most the TTL of %v", t.TTL), got.ValidFor))
	if t.Expiry == backend.ByChallengers {
		err = errors.Join(err, equal("ValidFor where challengers expire the lease", got.ValidFor, t.TTL),
			expect(read.ObserveFor >= t.TTL, fmt.Sprintf("an ObserveFor of at least the holder's TTL of %v", t.TTL), read.ObserveFor))
	}
	return err
}

func acquireHeld(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	began := time.Now()
	got, err := b.bidOn(backend.Lease{Election: "jobs"})
	took := time.Since(began)
	if err != nil {
		return err
	}
	_, err = a.mustRenew(held)
	return errors.Join(err,
		equal("outcome of a bid for a held lease", got.Outcome, backend.Refused),
		expect(took <= t.TTL/4+t.Late, "an answer at once", took),
		equal("holder in the answer", got.Holder, a.candidate), equal("term in the answer", got.Term, held.Term), equal("Version in the answer", got.Version, held.Version))
}

func acquirePinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	expected, err := b.read("jobs")
	if err != nil {
		return err
	}
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
		got, err := b.bidOn(pinned)
		if err != nil {
			return err
		}
		if err := equal("outcome of a bid that expects the lease with "+change.what, got.Outcome, backend.Refused); err != nil {
			return err
		}
	}
	now, err := b.read("jobs")
	if err != nil {
		return err
	}
	got, err := b.bidOn(expected)
	return errors.Join(err, equal("Version after refused bids", now.Version, held.Version),
		equal("outcome of a bid that expects exactly the observed lease", got.Outcome, backend.Granted))
}

func acquireRenewed(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	expected, err := b.read("jobs")
	if err != nil {
		return err
	}
	t.sleep(expected.ObserveFor)
	if held, err = a.mustRenew(held); err != nil {
		return err
	}
	got, err := b.bidOn(expected)
	if err != nil {
		return err
	}
	_, err = a.mustRenew(held)
	return errors.Join(err, equal("outcome of a bid for a lease that was renewed meanwhile", got.Outcome, backend.Refused))
}

func acquireLeftover(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	got, err := a.bidOn(backend.Lease{Election: "jobs"}) // like a bidder whose first answer was lost
	if err != nil {
		return err
	}
	now, err := b.read("jobs")
	if err != nil {
		return err
	}
	switch got.Outcome {
	case backend.Granted:
		err = errors.Join(expect(got.Term > old.Term, fmt.Sprintf("a term above %d for a leftover that was granted again", old.Term), got.Term),
			expect(got.Version != old.Version, "another Version", got.Version), equal("term that readers see", now.Term, got.Term))
	case backend.Refused:
		err = expect(now.Holder.Nonce != a.candidate.Nonce, "the store to release a leftover that it does not grant again", now)
	default:
		err = fmt.Errorf("bid for the bidder's own leftover: expected granted or refused, got %v: %v", got.Outcome, got.Err)
	}
	return errors.Join(err, a.mustNotRenew("after the bid ended it", old))
}

func acquireSameID(t *Trial) error {
	a, b := t.client("twin"), t.client("twin")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	got, err := b.bidOn(backend.Lease{Election: "jobs"})
	if err != nil {
		return err
	}
	mine := held
	mine.Holder = b.candidate
	if err := errors.Join(equal("outcome of a bid by another candidate with the holder's id", got.Outcome, backend.Refused),
		b.mustNotRenew("by another candidate with the same id", mine), b.release(backend.Released, held)); err != nil {
		return err
	}
	_, err = a.mustRenew(held)
	return err
}

func acquireConcurrent(t *Trial) error {
	const crowd = 8
	var clients []*client
	for i := range crowd {
		clients = append(clients, t.client(fmt.Sprintf("c%d", i)))
	}
	for round := range t.scaledCount(30) {
		name := fmt.Sprintf("jobs%d", round)
		expected, err := clients[0].read(name)
		if err != nil {
			return err
		}
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
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if len(won) == 0 {
			return fmt.Errorf("round %d: expected one of %d bids to be granted, got none", round, crowd)
		}
		if len(won) > 1 {
			return violation("A7", "one of many bidders wins", "round %d: expected one of %d bids to be granted, got %d: %+v", round, crowd, len(won), won)
		}
		now, err := clients[0].read(name)
		if err := errors.Join(err, equal("holder that readers see", now.Holder, won[0].Holder), equal("term", now.Term, won[0].Term)); err != nil {
			return err
		}
	}
	return nil
}

func acquireTTLTooLong(t *Trial) error {
	a := t.client("a")
	var bids []backend.Bid
	for _, name := range []string{"long", "usual"} {
		expected, err := a.read(name)
		if err != nil {
			return err
		}
		bids = append(bids, a.bid(expected))
	}
	t.sleep(max(bids[0].Expected.ObserveFor, 0))
	bids[0].TTL = 10000 * time.Hour
	answers, err := a.acquire(bids...)
	if err != nil {
		return err
	}
	long := answers[0]
	if long.Outcome != backend.Granted {
		err = expect(errors.Is(long.Err, backend.ErrInvalid), "a TTL of 10000 h to be granted or ErrInvalid", fmt.Sprint(long.Outcome, ": ", long.Err))
	}
	return errors.Join(err, equal("outcome of the bid beside it", answers[1].Outcome, backend.Granted))
}

func acquireLeastTTL(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	if err := expect(t.MinTTL >= 1, "Guarantees.MinTTL of at least 1", t.MinTTL); err != nil {
		return err
	}
	least := t.MinTTL
	l, err := a.winWith("jobs", func(b *backend.Bid) { b.TTL, b.Renew = least, least/2 })
	if err != nil {
		return err
	}
	read, err := b.read("jobs")
	return errors.Join(err, equal("TTL in the answer", l.TTL, least), equal("TTL read", read.TTL, least))
}
