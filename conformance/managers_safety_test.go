package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/election"
)

var trustCases = []Case{
	{Rule: "S2", Name: "trust counts from the start of the call", Run: safeTrustFromSending,
		Says: "A leader trusts its lease until at most the start of the granted call + TTL − clock margin, however late the answer comes."},
	{Rule: "S3", Name: "Leading is correct right after a stall", Run: safeStall,
		Says: "Leading() compares the clock with the deadline at every call, so it is correct even while the manager's own loop is blocked."},
	{Rule: "S12", Name: "one failing item harms no other election", Run: safeItem,
		Says: "An item of a batch that fails does not end the lease of any other election."},
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
	if err := expect(a.Leading() || !t.Virtual, "a leader despite slow answers", a.Current()); err != nil {
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
		expect(!late, fmt.Sprintf("Leading() false after %v, the deadline of the last granted call, whose answer took %v", deadline, delay), late))
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
			return fmt.Errorf("%s, while the renewals of jobs2 had no outcome: expected term %d to last, got %v", p.Name(), terms[p.Name()], p.events())
		}
	}
	if err := t.waitForEvent(members[2], "the event that the leadership of jobs2, whose renewals had no outcome, has ended at its deadline", func(e election.Event) bool {
		return e.Reason == election.ReasonUnreachable || e.Reason == election.ReasonDeadline
	}); err != nil {
		return err
	}
	_, _, err = t.waitForLeader(2*t.takeoverBound(), members[2])
	return err
}
