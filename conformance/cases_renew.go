package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-election/go-election/backend"
)

var renewCases = []Case{
	{Rule: "R1", Name: "a renewal is a write with a fresh heartbeat", Run: renewHeartbeat,
		Says: "Each renewal writes a fresh random heartbeat, so that every reader sees another Version, and does not change Term. A store that expires leases by itself may keep the Version."},
	{Rule: "R2", Name: "a renewal in another term is refused", Run: renewTerm,
		Says: "The store refuses a renewal in another term, and changes nothing."},
	{Rule: "R3", Name: "a renewal is refused after another grant", Run: renewAfterTakeover, skip: needsExclusive,
		Says: "The store refuses a renewal after another grant, and does not change that grant."},
	{Rule: "R4", Name: "a renewal does not revive a released lease", Run: renewReleased,
		Says: "A renewal does not revive a released lease, even if no other candidate has acquired it."},
	{Rule: "R5", Name: "a renewal is refused after a deposition", Run: renewDeposed,
		Says: "After Depose the store refuses the holder's next renewal, with the request in the answer. The holder keeps the lease until it releases it."},
	{Rule: "R6", Name: "a renewal's answer carries the request", Run: renewRequest,
		Says: "The answer to a renewal carries the request beside the lease."},
	{Rule: "R7", Name: "a lease that was never granted is not renewed", Run: renewNeverGranted,
		Says: "The store refuses to renew a lease that it never granted, and writes no record."},
	{Rule: "R8", Name: "a renewal does not shorten the observation time", Run: renewTTL,
		Says: "During a leadership all readers see the TTL and Renew of the winning bid, and an ObserveFor of at least that TTL, however long ago the lease was renewed. No ValidFor exceeds that ObserveFor."},
	{Rule: "R9", Name: "renewals are answered in order", Run: renewOrder, skip: needsExclusive,
		Says: "Each renewal has its own outcome, and answer i belongs to lease i."},
	{Rule: "R10", Name: "a deleted record is not renewed", Run: renewDeleted, Fault: FaultDeleteRecord,
		Says: "The store refuses a renewal after the record was deleted."},
}

func compare(a, b string) int { return strings.Compare(a, b) }

func renewHeartbeat(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	first, err := a.win("jobs")
	if err != nil {
		return err
	}
	versions := map[string]int{first.Version: 0}
	held := first
	for i := range 50 {
		if held, err = a.mustRenew(held); err != nil {
			return err
		}
		if earlier, twice := versions[held.Version]; twice && !t.hidesRenewals() {
			return fmt.Errorf("renewal %d: expected a fresh Version, got %q, that of renewal %d", i+1, held.Version, earlier)
		}
		versions[held.Version] = i + 1
		read, err := b.read("jobs")
		if err := errors.Join(err, equal("Version that readers see", read.Version, held.Version), equal("term after a renewal", read.Term, first.Term), equal("holder after a renewal", read.Holder, a.candidate)); err != nil {
			return err
		}
	}
	return nil
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
		if err := a.mustNotRenew(fmt.Sprintf("while the lease is held in term %d", held.Term), other); err != nil {
			return err
		}
	}
	now, err := a.read("jobs")
	_, err2 := a.mustRenew(held)
	return errors.Join(err, err2, equal("Version after refused renewals", now.Version, held.Version))
}

func renewAfterTakeover(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	old, err := a.win("jobs")
	if err != nil {
		return err
	}
	a.crash()
	now, err := b.win("jobs")
	if err != nil {
		return err
	}
	if err := errors.Join(expect(now.Term > old.Term, fmt.Sprintf("a term above %d after a takeover", old.Term), now.Term),
		equal("End of the last leadership", now.End, backend.Failed), equal("LastID", now.LastID, "a")); err != nil {
		return err
	}
	if t.Store.Kill == nil {
		if err := a.mustNotRenew("after another grant", old); err != nil {
			return err
		}
	}
	read, err := b.read("jobs")
	return errors.Join(err, equal("Version of the later grant", read.Version, now.Version), equal("holder of the later grant", read.Holder, b.candidate))
}

func renewReleased(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	released := held
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	if err := a.mustNotRenew("after a release", released); err != nil {
		return err
	}
	now, err := a.read("jobs")
	return errors.Join(err, expect(now.Vacant(), "the lease to stay vacant", now))
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
	read, err := op.read("jobs")
	if err := errors.Join(err, equal("outcome of a deposed holder's renewal", got.Outcome, backend.Refused),
		equal("request in the answer", got.Request.Kind, backend.Depose), equal("term of the request", got.Request.Term, held.Term),
		equal("holder in the answer", got.Holder, a.candidate),
		equal("holder before the release", read.Holder, a.candidate), equal("Term before the release", read.Term, held.Term)); err != nil {
		return err
	}
	if err := a.release(backend.Deposed, held); err != nil {
		return err
	}
	read, err = op.read("jobs")
	return errors.Join(err, expect(read.Vacant(), "a vacant lease after the deposed holder has released it", read), equal("End of the leadership", read.End, backend.Deposed))
}

func renewRequest(t *Trial) error {
	a, op := t.client("a"), t.client("operator")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for _, request := range []backend.Request{
		{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"},
		{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: op.candidate.Nonce},
	} {
		if err := op.request(request); err != nil {
			return fmt.Errorf("request %s: expected no error, got %w", request.Kind, err)
		}
		if held, err = a.mustRenew(held); err != nil {
			return err
		}
		if err := equal("request in the answer to a renewal", held.Request, request); err != nil {
			return err
		}
	}
	return nil
}

func renewNeverGranted(t *Trial) error {
	a := t.client("a")
	if err := a.mustNotRenew("that the store never granted", backend.Lease{Election: "jobs", Holder: a.candidate, Term: 7, TTL: t.TTL, Renew: t.TTL / 3}); err != nil {
		return err
	}
	records, err := a.list("", 10)
	now, err2 := a.read("jobs")
	return errors.Join(err, err2, equal("records after a refused renewal", len(records), 0), equal("term", now.Term, 0), expect(now.Vacant(), "a vacant lease", now))
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
		if err = errors.Join(err, expect(len(answers) == 1 && answers[0].Outcome == backend.Granted, "the renewal to be granted", answers)); err != nil {
			return err
		}
		held = answers[0].Lease
		t.sleep(t.TTL / 10) // an older record is observed for as long
		read, err := b.read("jobs")
		err = errors.Join(err, equal("TTL in the answer", held.TTL, want.TTL), equal("Renew in the answer", held.Renew, want.Renew),
			equal("TTL read", read.TTL, want.TTL), equal("Renew read", read.Renew, want.Renew))
		if t.Expiry == backend.ByChallengers {
			err = errors.Join(err, expect(read.ObserveFor >= want.TTL, fmt.Sprintf("an ObserveFor of at least %v", want.TTL), read.ObserveFor),
				expect(answers[0].ValidFor <= read.ObserveFor, fmt.Sprintf("a ValidFor of at most ObserveFor, %v", read.ObserveFor), answers[0].ValidFor))
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
			released := l
			if err := a.release(backend.Released, released); err != nil {
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
		if err := errors.Join(equal(fmt.Sprintf("election of answer %d", i), got.Election, name), equal("outcome for "+name, got.Outcome, want[name])); err != nil {
			return err
		}
		if want[name] == backend.Refused {
			if err := equal("holder of "+name+" in the refusal", got.Holder, b.candidate); err != nil {
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
	if err := t.inject(FaultDeleteRecord, true, "jobs"); err != nil {
		return err
	}
	return a.mustNotRenew("after its record was deleted", held)
}
