package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/election"
)

// The judge checks S1, S2, S4, S5, S8, S10 and S11 in every case that has
// managers. Those here provoke each of them.
var safetyCases = append(cutOffCases(),
	Case{Rule: "S2", Name: "trust counts from the start of the call", Run: safeTrustFromSending,
		Says: "Trusted until at most the start of the successful call + TTL − clock margin, however late the answer comes."},
	Case{Rule: "S3", Name: "Leading is correct right after a stall", Run: safeStall,
		Says: "Leading() compares the clock with the deadline at every call: it is right though the manager itself is stopped."},
	Case{Rule: "S6", Name: "an expired leadership does not come back", Run: safeNoRevival,
		Says: "A leadership that has run out does not come back, even if nobody took the lease: a new bid, a new term."},
	Case{Rule: "S7", Name: "late and repeated requests touch no later term", Run: safeLate,
		Says: "A renewal or release of term n that arrives late, or twice, does not touch term n+1, also of the same candidate."},
	Case{Rule: "S8", Name: "a lost answer starts no leadership", Run: safeUnknown,
		Says: "A bid whose answer is lost is never a leadership; what it may have been granted is granted anew or released."},
	Case{Rule: "S8", Name: "a late bid leaves no orphaned lease", Run: safeOrphan,
		Says: "What a late bid was granted after its candidate has stopped campaigning is released."},
	Case{Rule: "S12", Name: "one failing item harms no other election", Run: safeItem,
		Says: "An item of a batch that fails costs no other election its lease."},
	Case{Rule: "S13", Name: "a takeover waits for the holder's TTL", Run: safeHolderTTL, skip: needsAll(needsExclusive, needsExpiry),
		Says: "A takeover waits for the holder's TTL, not for the challenger's."},
	Case{Rule: "S14", Name: "a challenger observes the lease itself", Run: safeObserving, skip: needsAll(needsExclusive, needsExpiryByChallengers),
		Says: "A challenger takes a held lease only after it has itself seen it unchanged for the holder's TTL, counted from the receipt of the first answer; that the record is ancient does not help."},
)

// cutCases cut a leader off in each way, a case each, so that they can run side by
// side.
func cutOffCases() (cases []Case) {
	for _, cut := range []struct {
		name   string
		silent bool // the store hears nothing more from the leader
		fate   func(t *Trial, c Call) Fate
	}{
		{"of whom nothing arrives", true, func(t *Trial, c Call) Fate { return Fate{Lost: true} }},
		{"to whom nothing comes back", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: true} }},
		{"whose calls are late", false, func(t *Trial, c Call) Fate { return Fate{Before: t.TTL} }},
		{"whose calls fail", true, func(t *Trial, c Call) Fate { return Fate{Err: errInjected} }},
		{"whose renewals are not answered", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: c.Method == "Renew"} }},
		{"whose renewals do not arrive", false, func(t *Trial, c Call) Fate { return Fate{Lost: c.Method == "Renew"} }},
	} {
		cases = append(cases, Case{Rule: "S1", Name: "a leader " + cut.name, skip: needsExclusive,
			Says: "The intervals during which Leading() is true in different processes never overlap, whoever is cut off from the store and for how long.",
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
	if silent && !t.lastsWithProcess() { // otherwise the leader may go on bidding, or the store hears its renewals
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

func safeTrustFromSending(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	delay := t.callTimeout() * 6 / 10
	var cut atomic.Bool
	a.node.wire.Decide(func(c Call) Fate {
		if cut.Load() {
			return Fate{Lost: true}
		}
		if c.Method == "Acquire" || c.Method == "Renew" {
			return Fate{After: delay}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	t.sleep(3 * t.TTL)
	if err := expect(a.Leading() || !t.Virtual, "a leader though answers are slow", a.Current()); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	before := a.node.lastGrantSent("jobs")
	if err := t.waitUntil(t.TTL, "another renewal", func() bool { return a.node.lastGrantSent("jobs") > before }); err != nil {
		return err
	}
	cut.Store(true)
	t.sleep(a.node.lastGrantSent("jobs") + t.TTL - t.clockMargin() - t.TTL/10 - t.now())
	early := a.Leading()
	deadline := t.waitForDeadline(a.node, "jobs")
	late := a.Leading()
	return errors.Join(
		expect(early || !t.Virtual, "trust to last until shortly before the deadline", early),
		expect(!late, fmt.Sprintf("Leading() false past %v, which is the deadline of the last granted call, whose answer took %v", deadline, delay), late))
}

func safeItem(t *Trial) error {
	n, err := t.node("a", nil)
	if err != nil {
		return err
	}
	var members []*participant
	for i := range 5 {
		p, err := n.join(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		if err := p.lead(); err != nil {
			return err
		}
		members = append(members, p)
	}
	if err := t.waitUntil(2*t.takeoverBound(), "all five to lead", func() bool {
		for _, p := range members {
			if !p.Leading() {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	terms := map[string]uint64{}
	for _, p := range members {
		l, err := t.waitForLeadership(t.takeoverBound(), p)
		if err != nil {
			return err
		}
		terms[p.Name()] = l.Term
	}
	n.wire.Decide(func(c Call) Fate {
		if c.Method == "Renew" {
			return Fate{Spoil: []string{"jobs2"}}
		}
		return Fate{}
	})
	t.sleep(3 * t.TTL)
	n.wire.Decide(nil)
	for i, p := range members {
		l := p.Leadership()
		if i != 2 && (l == nil || l.Term != terms[p.Name()]) {
			return fmt.Errorf("%s, while the renewals of jobs2 had no outcome: expected it to be led in term %d all the time, got %v", p.Name(), terms[p.Name()], p.events())
		}
	}
	if err := t.waitForEvent(members[2], "jobs2, whose renewals had no outcome, to be told that its leadership has ended at its deadline", func(e election.Event) bool {
		return e.Reason == election.ReasonUnreachable || e.Reason == election.ReasonDeadline
	}); err != nil {
		return err
	}
	_, _, err = t.waitForLeader(2*t.takeoverBound(), members[2])
	return err
}

func safeHolderTTL(t *Trial) error {
	short := max(t.TTL/2, t.MinTTL)
	if short > t.TTL/2 {
		return nil // the store knows no two TTLs that differ enough
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
	return expect(won >= sent+t.TTL, fmt.Sprintf("no takeover before %v: the holder's last renewal was sent at %v with a TTL of %v, the challenger's is %v", sent+t.TTL, sent, t.TTL, short), won)
}

func safeObserving(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	a.node.crash()
	t.sleep(3 * t.TTL) // the record is ancient now
	if l, err := t.client("reader").read("jobs"); err != nil || l.Vacant() {
		return err // a store with sessions may have ended it by itself: it is not held any more
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
			return expect(won >= first+t.TTL, fmt.Sprintf("no takeover before %v: the first answer was received at %v, the holder's TTL is %v", first+t.TTL, first, t.TTL), won)
		}
	}
	return fmt.Errorf("expected the challenger to have observed the lease, it took it without looking")
}
