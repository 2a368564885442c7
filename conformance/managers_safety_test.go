package conformance

import (
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/election"
)

var trustCases = []Case{
	{Rule: "S2", Name: "trust counts from the start of the call", Run: safeTrustFromSending,
		Says: "A leader trusts its lease until at most the start of the granted call + TTL − clock margin, however late the answer comes."},
	{Rule: "S3", Name: "Leading is correct right after a stall", Run: safeStall,
		Says: "Leading() compares the clock with the deadline at every call, so it is correct even while the manager's own loop is blocked."},
	{Rule: "S6", Name: "an expired leadership does not come back", Run: safeNoRevival,
		Says: "An expired leadership does not come back, even if no other candidate acquired the lease. The candidate needs a new bid and gets a new term."},
	{Rule: "S8", Name: "a lost answer starts no leadership", Run: safeUnknown,
		Says: "A bid whose answer is lost never starts a leadership. A lease that the store may have granted to it is granted again or released."},
	{Rule: "S8", Name: "a late bid leaves no orphaned lease", Run: safeOrphan,
		Says: "If a late bid is granted after its candidate has stopped campaigning, the manager releases the lease."},
	{Rule: "S13", Name: "a takeover waits for the holder's TTL", Run: safeHolderTTL,
		Says: "A challenger waits for the holder's TTL, not for its own."},
	{Rule: "S14", Name: "a challenger observes the lease itself", Run: safeObserving,
		Says: "A challenger acquires a held lease only after it has itself observed the lease unchanged for the holder's TTL, counted from the receipt of the first answer. This holds for an old record, too."},
	{Rule: "S12", Name: "one failing item harms no other election", Run: safeItem,
		Says: "An item of a batch that fails does not end the lease of any other election."},
}

func safeTrustFromSending(t *Trial) {
	a := t.participant("a", "jobs", nil)
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
	a.lead()
	t.waitForLeader(2*t.takeoverBound(), a)
	t.sleep(3 * t.TTL)
	require(expect(a.Leading(), "a leader despite slow answers", a.Current()))
	t.waitForLeader(2*t.takeoverBound(), a)
	before := a.node.lastGrantSent("jobs")
	t.waitUntil(t.TTL, "another renewal", func() bool { return a.node.lastGrantSent("jobs") > before })
	cut.Store(true)
	t.sleep(a.node.lastGrantSent("jobs") + t.TTL - t.clockMargin() - t.TTL/10 - t.now())
	early := a.Leading()
	deadline := t.waitForDeadline(a.node, "jobs")
	late := a.Leading()
	require(
		expect(early, "trust to last until shortly before the deadline", early),
		expect(!late, fmt.Sprintf("Leading() false after %v, the deadline of the last granted call, whose answer took %v", deadline, delay), late))
}

func safeItem(t *Trial) {
	n := t.node("a", nil)
	var members []*participant
	for i := range 5 {
		p := n.join(fmt.Sprintf("jobs%d", i))
		p.lead()
		members = append(members, p)
	}
	terms := map[string]uint64{}
	for _, p := range members {
		t.waitForLeader(2*t.takeoverBound(), p)
		terms[p.Name()] = p.Leadership().Term
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
			fail("%s, while the renewals of jobs2 had no outcome: expected term %d to last, got %v", p.Name(), terms[p.Name()], p.events())
		}
	}
	require(expect(members[2].told(election.ReasonUnreachable) || members[2].told(election.ReasonDeadline),
		"the event that the leadership of jobs2, whose renewals had no outcome, has ended at its deadline", members[2].events()))
	t.waitForLeader(2*t.takeoverBound(), members[2])
}

func safeNoRevival(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	old := t.waitForLeadership(t.takeoverBound(), a)
	a.node.wire.Cut(true)
	t.waitForDeadline(a.node, "jobs")
	a.node.wire.Cut(false)
	now := t.waitForLeadership(2*t.takeoverBound(), a)
	require(expect(now.Term > old.Term, fmt.Sprintf("a term above %d after the leadership expired", old.Term), now),
		expect(!old.Leading(), "the old leadership not to come back", old.Leading()),
		expect(old.Context().Err() != nil, "its context to be cancelled", old.Context().Err()))
}

func safeUnknown(t *Trial) {
	a := t.participant("a", "jobs", nil)
	var lost atomic.Int64
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" && lost.Add(1) <= 3 {
			return Fate{AnswerLost: true}
		}
		return Fate{}
	})
	a.lead()
	t.waitUntil(4*t.takeoverBound(), "three bids whose answers are lost, and a fourth", func() bool { return lost.Load() > 3 || a.Leading() })
	require(expect(lost.Load() > 3, "no leadership while the answers to all bids are lost", a.Current()))
	t.waitForLeader(t.takeoverBound(), a) // the checker compares the term with the granted answer
}

func safeOrphan(t *Trial) {
	a := t.participant("a", "jobs", nil)
	var late atomic.Bool
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" {
			late.Store(true)
			return Fate{Before: 3 * t.callTimeout()}
		}
		return Fate{}
	})
	a.lead()
	t.waitUntil(2*t.takeoverBound(), "a bid", late.Load)
	a.Pause()
	t.sleep(3 * t.callTimeout()) // until the bid has arrived
	b := t.candidate("b", "jobs", nil)
	t.waitForLeader(2*t.takeoverBound(), b)
}

func safeHolderTTL(t *Trial) {
	short := t.TTL / 2
	a, _ := t.startWithLeader(1, "jobs", nil)
	b := t.candidate("b", "jobs", func(o *election.Options) { o.TTL = short })
	t.sleep(t.TTL)
	a.node.wire.Cut(true)
	sent := a.node.lastGrantSent("jobs")
	t.waitForLeader(t.takeoverBound(), b)
	won := b.wonAt()
	require(expect(won >= sent+t.TTL, fmt.Sprintf("no takeover before %v: the holder sent its last renewal at %v with a TTL of %v; the challenger's TTL is %v", sent+t.TTL, sent, t.TTL, short), won))
}

func safeObserving(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	a.node.crash()
	t.sleep(3 * t.TTL) // the record is old now
	b := t.node("b", nil)
	log := b.keepCalls()
	b.wire.Decide(func(c Call) Fate {
		if c.Method == "Observe" {
			return Fate{After: t.callTimeout() / 2}
		}
		return Fate{}
	})
	p := b.join("jobs")
	p.lead()
	t.waitForLeader(t.takeoverBound()+t.callTimeout(), p)
	won := p.wonAt()
	for _, c := range log() {
		if c.Method == "Observe" && c.Err == nil {
			first := b.wire.Began.Sub(t.began) + c.Received
			require(expect(won >= first+t.TTL, fmt.Sprintf("no takeover before %v: the challenger received the first answer at %v, and the holder's TTL is %v", first+t.TTL, first, t.TTL), won))
			return
		}
	}
	fail("expected the challenger to observe the lease, but it acquired the lease without that")
}
