package conformance

import (
	"fmt"
	"math"

	"github.com/go-election/go-election/backend"
)

func acquireOrder(t *Trial) {
	a, b := t.client("a"), t.client("b")
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
			require(equal(fmt.Sprintf("election of answer %d", i), got.Election, name), equal("outcome for "+name, got.Outcome, want[name]))
			if want[name] == backend.Refused {
				require(equal("holder of "+name+" in the refusal", got.Holder, a.candidate))
			}
			got.Holder = b.candidate
			held = append(held, got.Lease)
		}
	}
	check(b.acquire(bids...))
	check(b.renew(held...))
}

func acquireBadItem(t *Trial) {
	a, b := t.client("a"), t.client("b")
	n := t.scaledCount(2500)
	names := numbered("jobs", n)
	bids := a.bidsFor(names...)
	bad := n / 2
	bids[bad].MinTerm = math.MaxInt64 // there is no greater term

	var held []backend.Lease
	for i, got := range a.acquire(bids...) {
		switch {
		case i == bad && (got.Outcome == backend.Granted || got.Err == nil):
			fail("bid with MinTerm %d, the greatest term: expected an error, got %v in term %d", int64(math.MaxInt64), got.Outcome, got.Term)
		case i != bad && got.Outcome != backend.Granted:
			fail("item %d of %d beside one bad item: expected granted, got %v: %v", i, n, got.Outcome, got.Err)
		case i != bad:
			held = append(held, got.Lease)
		}
	}

	first := held[0]
	held[0].Term++
	for i, got := range a.renew(held...) {
		want := backend.Granted
		if i == 0 {
			want = backend.Refused
		}
		require(equal(fmt.Sprintf("outcome of renewal %d of %d, the first of which has a wrong term", i, len(held)), got.Outcome, want))
	}
	held[0] = a.keep(first)

	a.release(backend.Released, held...)
	now := b.observe(zeroLeases(names...)...)
	require(equal("leases read", len(now), n))
	for _, l := range now {
		require(expect(l.Vacant() && (l.Term > 0 || l.Election == names[bad]), fmt.Sprintf("all %d leases to be vacant with a term after their release", n), l))
	}
}

// numbered returns n names.
func numbered(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%05d", name, i))
	}
	return names
}
