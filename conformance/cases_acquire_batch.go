package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-election/go-election/backend"
)

func acquireOrder(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var bids []backend.Bid
	want := map[string]backend.Outcome{}
	for i := range 30 {
		name := fmt.Sprintf("jobs%02d", 97*i%30) // not in order of names
		want[name] = backend.Granted
		if i%3 == 1 {
			want[name] = backend.Refused
			if _, err := a.win(name); err != nil {
				return err
			}
		}
		expected, err := b.read(name)
		if err != nil {
			return err
		}
		if want[name] == backend.Refused {
			expected.Term, expected.Version = 0, ""
		}
		bids = append(bids, b.bid(expected))
	}
	t.sleep(max(bids[0].Expected.ObserveFor, 0))
	answers, err := b.acquire(bids...)
	if err != nil {
		return err
	}
	for i, got := range answers {
		name := bids[i].Election
		if err := errors.Join(equal(fmt.Sprintf("election of answer %d", i), got.Election, name), equal("outcome for "+name, got.Outcome, want[name])); err != nil {
			return err
		}
	}
	return nil
}

func acquireBadItem(t *Trial) error {
	a := t.client("a")
	n := t.scaledCount(2500)
	bad := n / 2
	var seen []backend.Lease
	for i := range n {
		seen = append(seen, backend.Lease{Election: fmt.Sprintf("jobs%05d", i)})
	}
	expected, err := a.observe(seen...)
	if err != nil {
		return err
	}
	if err := equal("leases in the answer to a first Observe", len(expected), n); err != nil {
		return err
	}
	byName := func(x, y backend.Lease) int { return compare(x.Election, y.Election) }
	slices.SortFunc(expected, byName)
	var bids []backend.Bid
	for _, l := range expected {
		bids = append(bids, a.bid(l))
	}
	t.sleep(max(expected[0].ObserveFor, 0))
	bids[bad].MinTerm = math.MaxInt64 // there is no greater term
	answers, err := a.acquire(bids...)
	if err != nil {
		return err
	}
	var held []backend.Lease
	for i, got := range answers {
		switch {
		case i == bad && (got.Outcome == backend.Granted || got.Err == nil):
			return fmt.Errorf("bid with MinTerm %d, the greatest term: expected an error, got %v in term %d", int64(math.MaxInt64), got.Outcome, got.Term)
		case i != bad && got.Outcome != backend.Granted:
			return fmt.Errorf("item %d of %d beside one bad item: expected granted, got %v: %v", i, n, got.Outcome, got.Err)
		case i != bad:
			held = append(held, got.Lease)
		}
	}
	wrong := held[0]
	held[0].Term++
	renewed, err := a.renew(held...)
	if err != nil {
		return err
	}
	for i, got := range renewed {
		want := backend.Granted
		if i == 0 {
			want = backend.Refused
		}
		if err := equal(fmt.Sprintf("outcome of renewal %d of %d, the first of which has a wrong term", i, len(held)), got.Outcome, want); err != nil {
			return err
		}
	}
	_, err = a.mustRenew(wrong)
	return err
}

func acquireSlices(t *Trial) error {
	a := t.client("a")
	expected, err := a.read("jobs")
	if err != nil {
		return err
	}
	t.sleep(max(expected.ObserveFor, 0))
	bids := []backend.Bid{a.bid(expected)}
	before := slices.Clone(bids)
	answers, err := a.acquire(bids...)
	if err != nil {
		return err
	}
	err = expect(slices.Equal(bids, before), fmt.Sprintf("the bids to be unchanged: %+v", before), bids)
	bids[0].Election, bids[0].Candidate.ID = "other", "other"
	answers[0].Holder.ID = "other"
	now, err2 := a.read("jobs")
	err = errors.Join(err, err2, equal("holder after the caller has reused its slices", now.Holder, a.candidate))
	held := []backend.Lease{now}
	if _, err2 := a.renew(held...); err2 != nil {
		return err2
	}
	return errors.Join(err, expect(held[0] == now, fmt.Sprintf("the leases to be unchanged: %+v", now), held[0]))
}
