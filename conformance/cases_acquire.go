package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

var acquireCases = []Case{
	{Rule: "A1", Name: "a free lease is granted", calls: acquireFree,
		Says: "The store grants a bid for a free lease. The answer and all readers show holder, TTL (also " +
			"the least one) and Renew byte for byte, and ValidFor is at most the TTL."},
	{Rule: "A2", Name: "a held lease is its holder's alone", calls: acquireHeld, needs: []need{exclusive},
		Says: "Acquire never waits for a holder to release: the store refuses the bid at once, and the " +
			"answer holds the current lease. Only the nonce identifies the holder: another candidate, even " +
			"with the same id, can neither renew nor release the lease."},
	{Rule: "A3", Name: "a bid succeeds only on the expected lease", calls: acquirePinned,
		needs: []need{exclusive, byChallengers},
		Says: "The store grants a bid only if the lease still equals Bid.Expected in Term and Version, " +
			"byte for byte. So it refuses a bid if the holder has renewed since the bidder read."},
	{Rule: "A5", Name: "the bidder's own leftover is granted again", calls: acquireLeftover,
		Says: "A record that names the bidder does not count as a grant. The store grants a leftover of " +
			"the bidder's own nonce again with a new term, or releases it; the old term has ended."},
	{Rule: "A7", Name: "one of many bidders wins", calls: acquireConcurrent, needs: []need{exclusive},
		Says: "Of any number of concurrent bids for the same lease the store grants exactly one."},
	{Rule: "A8", Name: "answers are in the order of the bids", calls: acquireOrder, needs: []need{exclusive},
		Says: "Each bid and each renewal has its own outcome, and answer i belongs to item i."},
	{Rule: "A9", Name: "one bad item does not affect the others", calls: acquireBadItem,
		Says: "If the backend cannot handle one item of a batch of thousands, it still handles the others. " +
			"When Release returns nil, none of its leases is held, however many they are."},
}

func acquireFree(t *Trial, a, b *client) {
	l := a.read("jobs")
	require(equal(l.Term, 0, "term before the first leadership"), expect(l.Vacant(), l, "a vacant lease"))
	t.sleep(max(l.ObserveFor, 0))

	bid := a.bid(l)
	bid.Renew = t.TTL / 4
	got := a.acquire(bid)[0]
	require(equal(got.Outcome, backend.Granted, "outcome of a bid for a free lease"))
	size, valid := len(got.Version), got.ValidFor
	require(equal(got.Election, "jobs", "election"), equal(got.Holder, a.candidate, "holder"),
		equal(got.TTL, t.TTL, "TTL"), equal(got.Renew, t.TTL/4, "Renew"),
		expect(got.Term > 0, got.Term, "a term above 0"),
		expect(size > 0 && size <= 600, got.Version, "a Version of 1 to 600 bytes"),
		expect(valid > 0 && valid <= t.TTL, valid, "a ValidFor above 0 and of at most the TTL, %v", t.TTL))

	read := b.shows("a grant", got.Lease)
	if t.Expiry == backend.ByChallengers {
		require(equal(valid, t.TTL, "ValidFor where challengers expire the lease"),
			expect(read.ObserveFor >= t.TTL, read.ObserveFor, "an ObserveFor of at least the TTL, %v", t.TTL))
	}

	least := a.winWith("least", func(b *backend.Bid) { b.TTL, b.Renew = t.MinTTL, t.MinTTL/2 })
	require(equal(least.TTL, t.MinTTL, "least TTL in the answer"),
		equal(b.read("least").TTL, t.MinTTL, "least TTL read"))
}

// refusedBid ends the case unless a bid that could lead to a second leader was refused.
func (t *Trial) refusedBid(what string, a backend.Answer) {
	if a.Outcome == backend.Granted {
		t.violated("%s was granted: %+v", what, a.Lease)
	}
	require(equal(a.Outcome, backend.Refused, "outcome of %s", what))
}

func acquireHeld(t *Trial, a, b *client) {
	b.candidate.ID = a.candidate.ID
	held := a.win("jobs")

	began := time.Now()
	got := b.bidOn(zero("jobs"))
	took := time.Since(began)
	require(equal(got.Outcome, backend.Refused, "outcome of a bid for a held lease"),
		expect(took <= t.TTL/4+t.Late, took, "an answer at once"),
		equal(asRead(got.Lease), asRead(held), "lease in the answer"))

	mine := held
	mine.Holder = b.candidate
	b.cannotKeep("by another candidate with the same id", mine)
	b.release(backend.Released, held)
	held = a.keepAfter("another candidate's release", held)

	forged := held.Held() // it names the real holder, like a request of an attacker or a bug
	forged.End = backend.Released
	err := b.Release(t.callContext(), []backend.Held{forged})
	if err != nil && !errors.Is(err, backend.ErrInvalid) {
		fail("release of another's lease: expected nil or ErrInvalid, got %w", err)
	}
	a.keepAfter("a release by another client in its name", held)
}

func acquirePinned(t *Trial, a, b *client) {
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
		{"only a name", func(l *backend.Lease) { *l = zero("jobs") }},
	} {
		pinned := expected
		change.edit(&pinned)
		t.refusedBid("a bid that expects the lease with "+change.what, b.bidOn(pinned))
	}

	require(equal(b.read("jobs").Version, held.Version, "Version after refused bids"))
	held = a.keep(held)
	t.refusedBid("a bid for a lease that was renewed meanwhile", b.bidOn(expected))
	a.keep(held)

	expected = b.read("jobs")
	t.sleep(expected.ObserveFor)
	got := b.bidOn(expected)
	require(equal(got.Outcome, backend.Granted, "outcome of a bid that expects exactly the observed lease"))
}

func acquireLeftover(t *Trial, a, b *client) {
	old := a.win("jobs")
	got := a.bidOn(zero("jobs")) // like a bidder whose first answer was lost
	now := b.read("jobs")

	switch got.Outcome {
	case backend.Granted:
		require(expect(got.Term > old.Term, got.Term, "a leftover to be granted above term %d", old.Term),
			expect(got.Version != old.Version, got.Version, "another Version"),
			equal(now.Term, got.Term, "term that readers see"))
	case backend.Refused:
		released := now.Holder.Nonce != a.candidate.Nonce
		require(expect(released, now, "the store to release a leftover that it does not grant again"))
	default:
		fail("bid for the bidder's leftover: expected granted or refused, got %v: %v", got.Outcome, got.Err)
	}
	a.cannotKeep("after the bid ended it", old)
}

func acquireConcurrent(t *Trial, a, b *client) {
	const crowd = 8
	clients := []*client{a, b}
	for i := range crowd - 2 {
		clients = append(clients, t.client(fmt.Sprintf("c%d", i)))
	}
	for round := range t.scaledCount(30) {
		name := fmt.Sprintf("jobs%d", round)
		expected := a.read(name)
		t.sleep(max(expected.ObserveFor, 0))

		answers, errs := make([]backend.Answer, crowd), make([]error, crowd)
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { errs[i] = try(func() { answers[i] = c.bidOn(expected) }) })
		}
		wg.Wait()
		require(errs...)

		won := slices.DeleteFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Granted })
		require(expect(len(won) > 0, "none", "one of %d bids to be granted in round %d", crowd, round))
		if len(won) > 1 {
			t.violated("round %d: %d of %d bids were granted, expected one: %+v", round, len(won), crowd, won)
		}
		now := a.read(name)
		require(equal(now.Holder, won[0].Holder, "holder that is read"), equal(now.Term, won[0].Term, "term"))
	}
}

func acquireOrder(t *Trial, a, b *client) {
	var bids []backend.Bid
	want := map[string]backend.Outcome{}
	for i := range 30 {
		name := fmt.Sprintf("jobs%02d", 97*i%30) // not in order of names
		want[name] = backend.Granted
		if i%3 == 1 {
			want[name] = backend.Refused
			a.win(name)
		}
		expected := b.read(name)
		if want[name] == backend.Refused {
			expected.Term, expected.Version = 0, ""
		}
		bids = append(bids, b.bid(expected))
	}
	t.sleep(max(bids[0].Expected.ObserveFor, 0))

	var held []backend.Lease
	check := func(answers []backend.Answer) {
		for i, got := range answers {
			name := bids[i].Election
			require(equal(got.Election, name, "election of answer %d", i),
				equal(got.Outcome, want[name], "outcome for %s", name))
			if want[name] == backend.Refused {
				require(equal(got.Holder, a.candidate, "holder of %s in the refusal", name))
			}
			got.Holder = b.candidate
			held = append(held, got.Lease)
		}
	}
	check(b.acquire(bids...))
	check(b.renew(held...))
}

func acquireBadItem(t *Trial, a, b *client) {
	n := t.scaledCount(2500)
	names := numbered("jobs", n)
	bids := a.bidsFor(names...)
	bad := n / 2
	bids[bad].MinTerm = math.MaxInt64 // there is no greater term

	var held []backend.Lease
	for i, got := range a.acquire(bids...) {
		if i == bad {
			failed := got.Outcome != backend.Granted && got.Err != nil
			require(expect(failed, got.Outcome, "an error for a bid with the greatest MinTerm"))
			continue
		}
		require(equal(got.Outcome, backend.Granted, "outcome of bid %d beside a bad one (%v)", i, got.Err))
		held = append(held, got.Lease)
	}

	first := held[0]
	held[0].Term++
	for i, got := range a.renew(held...) {
		want := backend.Granted
		if i == 0 {
			want = backend.Refused
		}
		require(equal(got.Outcome, want, "outcome of renewal %d, the first of which has a wrong term", i))
	}
	held[0] = a.keep(first)

	a.release(backend.Released, held...)
	now := b.observe(zeroLeases(names...)...)
	require(equal(len(now), n, "leases read"))
	for _, l := range now {
		led := l.Election != names[bad]
		require(expect(l.Vacant() && (l.Term > 0 || !led), l, "released leases to be vacant, with a term"))
	}
}

// numbered returns n names.
func numbered(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%05d", name, i))
	}
	return names
}
