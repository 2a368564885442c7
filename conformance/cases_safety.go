package conformance

import (
	"fmt"

	"github.com/go-election/go-election/election"
)

// The checker tests S1, S2, S4, S5, S8, S10 and S11 in every manager case. These cases
// provoke violations of each rule.
var safetyCases = append(cutOffCases(),
	Case{Rule: "S6", Name: "an expired leadership does not come back", Run: safeNoRevival,
		Says: "An expired leadership does not come back, even if no other candidate acquired the lease. The candidate needs a new bid and gets a new term."},
	Case{Rule: "S7", Name: "late and repeated requests touch no later term", Run: safeLate,
		Says: "A renewal or release of term n that arrives late or twice does not affect term n+1, even if the same candidate holds it."},
	Case{Rule: "S8", Name: "a lost answer starts no leadership", Run: safeUnknown,
		Says: "A bid whose answer is lost never starts a leadership. A lease that the store may have granted to it is granted again or released."},
	Case{Rule: "S8", Name: "a late bid leaves no orphaned lease", Run: safeOrphan,
		Says: "If a late bid is granted after its candidate has stopped campaigning, the manager releases the lease."},
	Case{Rule: "S13", Name: "a takeover waits for the holder's TTL", Run: safeHolderTTL, skip: needsAll(needsExclusive, needsExpiry),
		Says: "A challenger waits for the holder's TTL, not for its own."},
	Case{Rule: "S14", Name: "a challenger observes the lease itself", Run: safeObserving, skip: needsAll(needsExclusive, needsExpiryByChallengers),
		Says: "A challenger acquires a held lease only after it has itself observed the lease unchanged for the holder's TTL, counted from the receipt of the first answer. This holds for an old record, too."},
)

// cutOffCases cut a leader off, each in another way. They are separate cases, so that
// they can run in parallel.
func cutOffCases() (cases []Case) {
	for _, cut := range []struct {
		name   string
		silent bool // no request of the leader reaches the store
		fate   func(t *Trial, c Call) Fate
	}{
		{"requests are lost", true, func(t *Trial, c Call) Fate { return Fate{Lost: true} }},
		{"answers are lost", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: true} }},
		{"requests are late", false, func(t *Trial, c Call) Fate { return Fate{Before: t.TTL} }},
		{"calls fail", true, func(t *Trial, c Call) Fate { return Fate{Err: errInjected} }},
		{"renewals get no answer", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: c.Method == "Renew"} }},
		{"renewals are lost", false, func(t *Trial, c Call) Fate { return Fate{Lost: c.Method == "Renew"} }},
	} {
		cases = append(cases, Case{Rule: "S1", Name: "a leader whose " + cut.name, skip: needsExclusive,
			Says: "The intervals during which Leading() is true in different processes never overlap, whichever process is cut off from the store and for however long.",
			Run: func(t *Trial) error {
				return safeCutOff(t, cut.silent, func(c Call) Fate { return cut.fate(t, c) })
			}})
	}
	return cases
}

func safeCutOff(t *Trial, silent bool, how func(Call) Fate) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	a.node.wire.Decide(how)
	end := t.now() + t.TTL + 2*t.takeoverBound()
	if silent && !t.lastsWithProcess() { // otherwise the leader's bids or renewals may reach the store
		if err := t.waitUntil(end-t.now(), "the follower to lead after the leader was cut off", b.Leading); err != nil {
			return err
		}
	}
	t.sleep(end - t.now())
	if silent && t.lastsWithProcess() {
		if err := expect(!b.Leading(), "no second leader while the process of the first one lives", b.Current()); err != nil {
			return err
		}
	}
	a.node.wire.Decide(nil)
	t.sleep(t.takeoverBound())
	_, _, err = t.waitForLeader(t.TTL, a, b)
	return err
}

func safeHolderTTL(t *Trial) error {
	short := max(t.TTL/2, t.MinTTL)
	if short > t.TTL/2 {
		return nil // the store allows no two TTLs that differ enough
	}
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", func(o *election.Options) { o.TTL = short })
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	a.node.wire.Cut(true)
	sent := a.node.lastGrantSent("jobs")
	if _, _, err := t.waitForLeader(t.takeoverBound(), b); err != nil {
		return err
	}
	won, _ := b.eventTime(func(e election.Event) bool { return e.Leading })
	return expect(won >= sent+t.TTL, fmt.Sprintf("no takeover before %v: the holder sent its last renewal at %v with a TTL of %v; the challenger's TTL is %v", sent+t.TTL, sent, t.TTL, short), won)
}

func safeObserving(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	a.node.crash()
	t.sleep(3 * t.TTL) // the record is old now
	if l, err := t.client("reader").read("jobs"); err != nil || l.Vacant() {
		return err // a store with sessions may have freed the lease by itself
	}
	b, err := t.node("b", nil)
	if err != nil {
		return err
	}
	b.wire.Keep(true)
	b.wire.Decide(func(c Call) Fate {
		if c.Method == "Observe" {
			return Fate{After: t.callTimeout() / 2}
		}
		return Fate{}
	})
	p, err := b.join("jobs")
	if err != nil {
		return err
	}
	if err := p.lead(); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(t.takeoverBound()+t.callTimeout(), p); err != nil {
		return err
	}
	won, _ := p.eventTime(func(e election.Event) bool { return e.Leading })
	for _, c := range b.wire.Log() {
		if c.Method == "Observe" && c.Err == nil {
			first := b.wire.began.Sub(t.began) + c.Received
			return expect(won >= first+t.TTL, fmt.Sprintf("no takeover before %v: the challenger received the first answer at %v, and the holder's TTL is %v", first+t.TTL, first, t.TTL), won)
		}
	}
	return fmt.Errorf("expected the challenger to observe the lease, but it acquired the lease without that")
}
