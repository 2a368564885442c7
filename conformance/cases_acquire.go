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
	{Rule: "A1", Name: "a free lease is granted", Run: acquireFree,
		Says: "A bid over a free lease is Granted, and the answer and every reader show holder, TTL and Renew byte for byte; Trust is at most the TTL."},
	{Rule: "A2", Name: "a held lease is refused at once", Run: acquireHeld, skip: exclusive,
		Says: "Acquire never waits for a holder to go away: the bid is Refused at once, and the answer holds the lease as it now stands."},
	{Rule: "A3", Name: "a bid is pinned to what was seen", Run: acquirePinned, skip: all(exclusive, watched),
		Says: "The store grants only if the lease is still Bid.Expected, byte for byte in Term, Heartbeat and Ref."},
	{Rule: "A4", Name: "a renewal undoes the watch", Run: acquireStale, skip: all(exclusive, watched),
		Says: "A bid over a lease that was renewed since it was seen is Refused."},
	{Rule: "A5", Name: "an own leftover is granted anew", Run: acquireLeftover,
		Says: "A record that names me is no win: a leftover of the bidder's own nonce is granted anew with a new term, or released; the old term is over."},
	{Rule: "A6", Name: "the same id is not the same candidate", Run: acquireSameID, skip: exclusive,
		Says: "Only the nonce says who holds a lease: another candidate with the same id is Refused, and can neither renew nor release."},
	{Rule: "A7", Name: "of many bidders one wins", Run: acquireCrowd, skip: exclusive,
		Says: "Of any number of bids at the same time over the same lease exactly one is Granted."},
	{Rule: "A8", Name: "answers are in order", Run: acquireOrder, skip: exclusive,
		Says: "Outcomes are per item, and answer i belongs to bid i."},
	{Rule: "A9", Name: "one bad item costs nobody else", Run: acquireBad,
		Says: "A batch of thousands with one item that cannot be served serves the others."},
	{Rule: "A10", Name: "slices are neither kept nor changed", Run: acquireSlices,
		Says: "A Backend must not change the slices passed in, nor keep them after the call."},
	{Rule: "A11", Name: "a TTL that only the store refuses", Run: acquireTooLong, skip: func(f facts) string {
		if f.MaxTTL > 0 {
			return "the store says its greatest TTL (Guarantees.MaxTTL), so nobody bids above it"
		}
		return ""
	}, Says: "A bid above the greatest TTL, if only the store knows that, is ErrInvalid and costs the others nothing."},
	{Rule: "A12", Name: "the least TTL is kept exactly", Run: acquireLeast,
		Says: "A TTL within the Guarantees comes back as it was asked for, whoever reads it."},
}

func acquireFree(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	l, err := a.look("jobs")
	if err != nil {
		return err
	}
	if err := errors.Join(same("term before the first leadership", l.Term, 0), must(l.Vacant(), "a vacant lease", l)); err != nil {
		return err
	}
	t.sleep(max(l.ObserveFor, 0))
	bid := a.bid(l)
	bid.Renew = t.TTL / 4
	answers, err := a.try(bid)
	if err != nil {
		return err
	}
	got := answers[0]
	if err := same("outcome of a bid over a free lease", got.Outcome, backend.Granted); err != nil {
		return err
	}
	read, err := b.look("jobs")
	if err != nil {
		return err
	}
	check := func(who string, l backend.Lease) error {
		return errors.Join(
			same(who+": election", l.Election, "jobs"), same(who+": holder", l.Holder, a.me),
			same(who+": TTL", l.TTL, t.TTL), same(who+": Renew", l.Renew, t.TTL/4),
			must(l.Term > 0, who+": a term above 0", l.Term), must(l.Heartbeat != 0, who+": a heartbeat that is not 0", l.Heartbeat),
			must(len(l.Ref) <= 512, who+": a Ref of at most 512 bytes", len(l.Ref)),
		)
	}
	err = errors.Join(check("winner", got.Lease), check("reader", read),
		same("term that the reader sees", read.Term, got.Term), same("heartbeat that the reader sees", read.Heartbeat, got.Heartbeat), same("Ref that the reader sees", read.Ref, got.Ref),
		must(got.ValidFor > 0 && got.ValidFor <= t.TTL, fmt.Sprintf("Trust of more than 0 and at most the TTL of %v", t.TTL), got.ValidFor))
	if t.Expiry == backend.ByChallengers {
		err = errors.Join(err, same("Trust where nobody but challengers expires", got.ValidFor, t.TTL),
			must(read.ObserveFor >= t.TTL, fmt.Sprintf("a Watch of at least the holder's TTL of %v", t.TTL), read.ObserveFor))
	}
	return err
}

func acquireHeld(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	began := t.moment()
	got, err := b.try1(backend.Lease{Election: "jobs"})
	took := t.since(began)
	if err != nil {
		return err
	}
	_, err = a.keep(held)
	return errors.Join(err,
		same("outcome of a bid for a held lease", got.Outcome, backend.Refused),
		must(took <= t.TTL/4+t.Late, "an answer at once", took),
		same("holder in the answer", got.Holder, a.me), same("term in the answer", got.Term, held.Term), same("heartbeat in the answer", got.Heartbeat, held.Heartbeat))
}

func acquirePinned(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	over, err := b.look("jobs")
	if err != nil {
		return err
	}
	t.sleep(over.ObserveFor)
	for _, wrong := range []struct {
		what string
		over func(*backend.Lease)
	}{
		{"another term", func(l *backend.Lease) { l.Term++ }},
		{"an older term", func(l *backend.Lease) { l.Term-- }},
		{"another heartbeat", func(l *backend.Lease) { l.Heartbeat ^= 2 }},
		{"heartbeat 0", func(l *backend.Lease) { l.Heartbeat = 0 }},
		{"another Ref", func(l *backend.Lease) { l.Ref += "x" }},
		{"nothing at all", func(l *backend.Lease) { *l = backend.Lease{Election: "jobs"} }},
	} {
		pinned := over
		wrong.over(&pinned)
		got, err := b.try1(pinned)
		if err != nil {
			return err
		}
		if err := same("outcome of a bid over the lease with "+wrong.what, got.Outcome, backend.Refused); err != nil {
			return err
		}
	}
	now, err := b.look("jobs")
	if err != nil {
		return err
	}
	got, err := b.try1(over)
	return errors.Join(err, same("heartbeat after bids that were refused", now.Heartbeat, held.Heartbeat),
		same("outcome of a bid over exactly what was watched", got.Outcome, backend.Granted))
}

func acquireStale(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	over, err := b.look("jobs")
	if err != nil {
		return err
	}
	t.sleep(over.ObserveFor)
	if held, err = a.keep(held); err != nil {
		return err
	}
	got, err := b.try1(over)
	if err != nil {
		return err
	}
	_, err = a.keep(held)
	return errors.Join(err, same("outcome of a bid over a lease that was renewed meanwhile", got.Outcome, backend.Refused))
}

func acquireLeftover(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	got, err := a.try1(backend.Lease{Election: "jobs"}) // as if the answer had been lost
	if err != nil {
		return err
	}
	now, err := b.look("jobs")
	if err != nil {
		return err
	}
	switch got.Outcome {
	case backend.Granted:
		err = errors.Join(must(got.Term > old.Term, fmt.Sprintf("a term above %d for a leftover granted anew", old.Term), got.Term),
			must(got.Heartbeat != old.Heartbeat, "a fresh heartbeat", got.Heartbeat), same("term that others see", now.Term, got.Term))
	case backend.Refused:
		err = must(now.Holder.Nonce != a.me.Nonce, "a leftover that is not granted anew to be released", now)
	default:
		err = fmt.Errorf("bid over an own leftover: expected granted or refused, got %v: %v", got.Outcome, got.Err)
	}
	return errors.Join(err, a.lost("that was the leftover's", old))
}

func acquireSameID(t *Trial) error {
	a, b := t.client("twin"), t.client("twin")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	got, err := b.try1(backend.Lease{Election: "jobs"})
	if err != nil {
		return err
	}
	mine := held
	mine.Holder = b.me
	if err := errors.Join(same("outcome of a bid by another candidate with the holder's id", got.Outcome, backend.Refused),
		b.lost("by another candidate with the same id", mine), b.free(backend.Released, held)); err != nil {
		return err
	}
	_, err = a.keep(held)
	return err
}

func acquireCrowd(t *Trial) error {
	const crowd = 8
	var clients []*client
	for i := range crowd {
		clients = append(clients, t.client(fmt.Sprintf("c%d", i)))
	}
	for round := range t.many(30) {
		name := fmt.Sprintf("jobs%d", round)
		over, err := clients[0].look(name)
		if err != nil {
			return err
		}
		t.sleep(max(over.ObserveFor, 0))
		var mu sync.Mutex
		var won []backend.Lease
		var errs []error
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() {
				got, err := c.try1(over)
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
		if len(won) != 1 {
			return fmt.Errorf("round %d: expected exactly one of %d bids to be granted, got %d: %+v", round, crowd, len(won), won)
		}
		now, err := clients[0].look(name)
		if err := errors.Join(err, same("holder that readers see", now.Holder, won[0].Holder), same("term", now.Term, won[0].Term)); err != nil {
			return err
		}
	}
	return nil
}

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
		over, err := b.look(name)
		if err != nil {
			return err
		}
		if want[name] == backend.Refused {
			over.Term, over.Heartbeat = 0, 0
		}
		bids = append(bids, b.bid(over))
	}
	t.sleep(max(bids[0].Expected.ObserveFor, 0))
	answers, err := b.try(bids...)
	if err != nil {
		return err
	}
	for i, got := range answers {
		name := bids[i].Election
		if err := errors.Join(same(fmt.Sprintf("election of answer %d", i), got.Election, name), same("outcome for "+name, got.Outcome, want[name])); err != nil {
			return err
		}
	}
	return nil
}

func acquireBad(t *Trial) error {
	a := t.client("a")
	n := t.many(2500)
	bad := n / 2
	var seen []backend.Lease
	for i := range n {
		seen = append(seen, backend.Lease{Election: fmt.Sprintf("jobs%05d", i)})
	}
	over, err := a.observe(seen...)
	if err != nil {
		return err
	}
	if err := same("leases in an answer to a first look at all", len(over), n); err != nil {
		return err
	}
	byName := func(x, y backend.Lease) int { return compare(x.Election, y.Election) }
	slices.SortFunc(over, byName)
	var bids []backend.Bid
	for _, l := range over {
		bids = append(bids, a.bid(l))
	}
	t.sleep(max(over[0].ObserveFor, 0))
	bids[bad].MinTerm = math.MaxInt64 // no term is left above it
	answers, err := a.try(bids...)
	if err != nil {
		return err
	}
	var held []backend.Lease
	for i, got := range answers {
		switch {
		case i == bad && (got.Outcome == backend.Granted || got.Err == nil):
			return fmt.Errorf("a bid with Floor %d, above which there is no term: expected an error, got %v in term %d", int64(math.MaxInt64), got.Outcome, got.Term)
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
		if err := same(fmt.Sprintf("outcome of renewal %d of %d, the first of which has a wrong term", i, len(held)), got.Outcome, want); err != nil {
			return err
		}
	}
	_, err = a.keep(wrong)
	return err
}

func acquireSlices(t *Trial) error {
	a := t.client("a")
	over, err := a.look("jobs")
	if err != nil {
		return err
	}
	t.sleep(max(over.ObserveFor, 0))
	bids := []backend.Bid{a.bid(over)}
	before := slices.Clone(bids)
	answers, err := a.try(bids...)
	if err != nil {
		return err
	}
	err = must(slices.Equal(bids, before), fmt.Sprintf("the bids to be left as they were: %+v", before), bids)
	bids[0].Election, bids[0].Candidate.ID = "other", "other"
	answers[0].Holder.ID = "other"
	now, err2 := a.look("jobs")
	err = errors.Join(err, err2, same("holder after the caller has used its slices again", now.Holder, a.me))
	held := []backend.Lease{now}
	if _, err2 := a.renew(held...); err2 != nil {
		return err2
	}
	return errors.Join(err, must(held[0] == now, fmt.Sprintf("the leases to be left as they were: %+v", now), held[0]))
}

func acquireTooLong(t *Trial) error {
	a := t.client("a")
	var bids []backend.Bid
	for _, name := range []string{"long", "usual"} {
		over, err := a.look(name)
		if err != nil {
			return err
		}
		bids = append(bids, a.bid(over))
	}
	t.sleep(max(bids[0].Expected.ObserveFor, 0))
	bids[0].TTL = 10000 * time.Hour
	answers, err := a.try(bids...)
	if err != nil {
		return err
	}
	long := answers[0]
	if long.Outcome != backend.Granted {
		err = must(errors.Is(long.Err, backend.ErrInvalid), "a TTL of 10000 h to be granted or ErrInvalid", fmt.Sprint(long.Outcome, ": ", long.Err))
	}
	return errors.Join(err, same("outcome of the bid beside it", answers[1].Outcome, backend.Granted))
}

func acquireLeast(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	if err := must(t.MinTTL >= 1, "Guarantees.MinTTL of at least 1", t.MinTTL); err != nil {
		return err
	}
	least := t.MinTTL
	l, err := a.winBy("jobs", func(b *backend.Bid) { b.TTL, b.Renew = least, least/2 })
	if err != nil {
		return err
	}
	read, err := b.look("jobs")
	return errors.Join(err, same("TTL in the answer", l.TTL, least), same("TTL read", read.TTL, least))
}
