package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-election/go-election/backend"
)

var renewCases = []Case{
	{Rule: "R1", Name: "a renewal is a write with a fresh heartbeat", Run: renewHeartbeat,
		Says: "Each renewal gives the lease a fresh random Heartbeat (unless the store expires leases by itself), which every reader sees, and leaves Term and Ref alone."},
	{Rule: "R2", Name: "a renewal is refused in another term", Run: renewTerm,
		Says: "Renew is pinned to the term: with another one it is Refused and touches nothing."},
	{Rule: "R3", Name: "a renewal is refused after another grant", Run: renewTaken, skip: exclusive,
		Says: "Renew is a write that the store refuses after another grant, and it does not touch that grant."},
	{Rule: "R4", Name: "a renewal does not revive", Run: renewReleased,
		Says: "A lease that was released is not revived by a renewal, even if nobody has taken it since."},
	{Rule: "R5", Name: "a renewal is refused after a deposition", Run: renewDeposed,
		Says: "Depose: the holder's next renewal is refused, with the request in the answer; the lease stays the holder's until it releases."},
	{Rule: "R6", Name: "an answer carries the request", Run: renewRequest,
		Says: "The answer to a renewal carries the request beside the lease."},
	{Rule: "R7", Name: "what never was is not renewed", Run: renewNothing,
		Says: "A renewal of a lease that was never granted is Refused and leaves no trace."},
	{Rule: "R8", Name: "a renewal does not shorten what is watched", Run: renewTTL,
		Says: "Through all renewals of a leadership readers see the TTL and Renew of the bid that won it, and a Watch of no less, which no Trust exceeds."},
	{Rule: "R9", Name: "a renewal answers in order", Run: renewOrder, skip: exclusive,
		Says: "Outcomes of renewals are per item and in order."},
	{Rule: "R10", Name: "a deleted record is not renewed", Run: renewDeleted, Fault: FaultDeleteRecord,
		Says: "Renew is refused after the record was deleted."},
}

func compare(a, b string) int { return strings.Compare(a, b) }

func renewHeartbeat(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	first, err := a.win("jobs")
	if err != nil {
		return err
	}
	seen, err := b.look("jobs")
	if err != nil {
		return err
	}
	heartbeats := map[uint64]int{first.Heartbeat: 0}
	held := first
	for i := range 50 {
		if held, err = a.keep(held); err != nil {
			return err
		}
		if earlier, twice := heartbeats[held.Heartbeat]; twice && !t.silent() {
			return fmt.Errorf("renewal %d: expected a fresh heartbeat, got %d, which renewal %d had", i+1, held.Heartbeat, earlier)
		}
		heartbeats[held.Heartbeat] = i + 1
		read, err := b.look("jobs")
		if err := errors.Join(err, same("heartbeat that others read", read.Heartbeat, held.Heartbeat), same("term after a renewal", read.Term, first.Term), same("reference after a renewal", read.Ref, seen.Ref), same("holder after a renewal", read.Holder, a.me)); err != nil {
			return err
		}
	}
	if t.silent() && len(heartbeats) < 51 {
		return nil
	}
	steps := map[uint64]bool{} // a counter is guessable, and equal after a lost write
	var last uint64
	for heartbeat := range heartbeats {
		steps[heartbeat-last] = true
		last = heartbeat
	}
	return must(len(steps) > 10, "random heartbeats", fmt.Sprintf("%d different steps between 51 of them", len(steps)))
}

func renewTerm(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, term := range []uint64{held.Term - 1, held.Term + 1, 1} {
		other := held
		other.Term = term
		if err := a.lost(fmt.Sprintf("while it is held in term %d", held.Term), other); err != nil {
			return err
		}
	}
	now, err := a.look("jobs")
	_, err2 := a.keep(held)
	return errors.Join(err, err2, same("heartbeat after renewals that were refused", now.Heartbeat, held.Heartbeat))
}

func renewTaken(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	a.dies()
	now, err := b.win("jobs")
	if err != nil {
		return err
	}
	if err := errors.Join(must(now.Term > old.Term, fmt.Sprintf("a term above %d after a takeover", old.Term), now.Term),
		same("how the last leadership ended", now.End, backend.Failed), same("who led before", now.LastID, "a"), same("nonce of who led before", now.LastNonce, a.me.Nonce)); err != nil {
		return err
	}
	if t.Store.Kill == nil {
		if err := a.lost("that another grant has ended", old); err != nil {
			return err
		}
	}
	read, err := b.look("jobs")
	return errors.Join(err, same("heartbeat of the later grant", read.Heartbeat, now.Heartbeat), same("holder of the later grant", read.Holder, b.me))
}

func renewReleased(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	gone := held
	if err := a.free(backend.Released, held); err != nil {
		return err
	}
	if err := a.lost("that was released", gone); err != nil {
		return err
	}
	now, err := a.look("jobs")
	return errors.Join(err, must(now.Vacant(), "a lease that stays vacant", now))
}

func renewDeposed(t *Trial) error {
	a, op := t.client("a"), t.client("operator")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if err := op.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Depose}); err != nil {
		return fmt.Errorf("depose: expected no error, got %w", err)
	}
	answers, err := a.renew(held)
	if err != nil {
		return err
	}
	got := answers[0]
	read, err := op.look("jobs")
	if err := errors.Join(err, same("outcome of a deposed holder's renewal", got.Outcome, backend.Refused),
		same("request in the answer", got.Request.Kind, backend.Depose), same("term of the request", got.Request.Term, held.Term),
		same("holder in the answer", got.Holder, a.me),
		same("holder until it releases", read.Holder, a.me), same("heartbeat until it releases", read.Heartbeat, held.Heartbeat)); err != nil {
		return err
	}
	if err := a.free(backend.Deposed, held); err != nil {
		return err
	}
	read, err = op.look("jobs")
	return errors.Join(err, must(read.Vacant(), "a vacant lease after the deposed has released", read), same("how the leadership ended", read.End, backend.Deposed))
}

func renewRequest(t *Trial) error {
	a, op := t.client("a"), t.client("operator")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, w := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: op.me.Nonce},
	} {
		if err := op.request(w); err != nil {
			return fmt.Errorf("ask %s: expected no error, got %w", w.Kind, err)
		}
		if held, err = a.keep(held); err != nil {
			return err
		}
		if err := same("request in the answer to a renewal", held.Request, w); err != nil {
			return err
		}
	}
	return nil
}

func renewNothing(t *Trial) error {
	a := t.client("a")
	if err := a.lost("that nobody was ever granted", backend.Lease{Election: "jobs", Holder: a.me, Term: 7, TTL: t.TTL, Renew: t.TTL / 3}); err != nil {
		return err
	}
	records, err := a.list("", 10)
	now, err2 := a.look("jobs")
	return errors.Join(err, err2, same("records after a refused renewal", len(records), 0), same("term", now.Term, 0), must(now.Vacant(), "a vacant lease", now))
}

func renewTTL(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	want := held
	for range 3 {
		answers, err := a.renew(held)
		if err = errors.Join(err, must(len(answers) == 1 && answers[0].Outcome == backend.Granted, "a renewal that is granted", answers)); err != nil {
			return err
		}
		held = answers[0].Lease
		read, err := b.look("jobs")
		err = errors.Join(err, same("TTL in the answer", held.TTL, want.TTL), same("Renew in the answer", held.Renew, want.Renew),
			same("TTL read", read.TTL, want.TTL), same("Renew read", read.Renew, want.Renew))
		if t.Expiry == backend.ByChallengers {
			err = errors.Join(err, must(read.ObserveFor >= want.TTL, fmt.Sprintf("a Watch of at least %v", want.TTL), read.ObserveFor),
				must(answers[0].ValidFor <= read.ObserveFor, fmt.Sprintf("a Trust of at most what is watched, %v", read.ObserveFor), answers[0].ValidFor))
		}
		if err != nil {
			return err
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
		l, err := a.win(name)
		if err != nil {
			return err
		}
		want[name] = backend.Granted
		if i%4 == 2 {
			want[name] = backend.Refused
			gone := l
			if err := a.free(backend.Released, gone); err != nil {
				return err
			}
			if _, err := b.win(name); err != nil {
				return err
			}
		}
		held = append(held, l)
	}
	answers, err := a.renew(held...)
	if err != nil {
		return err
	}
	for i, got := range answers {
		name := held[i].Election
		if err := errors.Join(same(fmt.Sprintf("election of answer %d", i), got.Election, name), same("outcome for "+name, got.Outcome, want[name])); err != nil {
			return err
		}
		if want[name] == backend.Refused {
			if err := same("holder of "+name+" in the refusal", got.Holder, b.me); err != nil {
				return err
			}
		}
	}
	return nil
}

func renewDeleted(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	if err := t.fault(FaultDeleteRecord, true, "jobs"); err != nil {
		return err
	}
	return a.lost("whose record was deleted", held)
}
