package conformance

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var livenessCases = []Case{
	{Rule: "L1", Name: "a takeover after a crash is in time", Run: liveCrash,
		Says: "After a crash of the leader there is a new one within TTL + Guarantees.Takeover + one reading."},
	{Rule: "L2", Name: "a handover after a resignation is fast", Run: liveResign,
		Says: "After an orderly release there is a new leader within one push or one reading."},
	{Rule: "L4", Name: "no change of leader without a fault", Run: liveSticky,
		Says: "The leader does not change without a fault, an operator's request or a resignation."},
}

func liveCrash(t *Trial) error {
	phases := 6
	if t.Short || !t.Virtual {
		phases = 3
	}
	for i := range phases {
		name := fmt.Sprintf("jobs%d", i)
		leader, others, err := t.startWithLeader(3, name, nil)
		if err != nil {
			return err
		}
		t.sleep(t.TTL + t.renewEvery()*time.Duration(i)/time.Duration(phases)) // at different times between two renewals
		leader.node.crash()

		limit := t.TTL + t.Takeover + t.TTL/20
		if t.Expiry != backend.ByChallengers {
			limit += t.renewEvery()
		}
		took := must(t.waitTime(limit, "a new leader after a crash", func() bool { return leaderOf(others) != nil }))
		if t.Expiry == backend.ByChallengers {
			require(expect(took >= t.TTL-t.renewEvery()-t.callTimeout()-t.Late, "no takeover long before the TTL has passed", took))
		}

		for _, p := range others {
			p.watcherEnded = true
			require(p.node.close(2 * t.TTL))
		}
	}
	return nil
}

func liveResign(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	members := []*participant{a, others[0]}
	for i := range 5 {
		t.sleep(t.TTL*2 + t.renewEvery()*time.Duration(i)/5)
		leader, _, err := t.waitForLeader(0, members...)
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		ctx, cancel := t.callContext()
		err = leader.Resign(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("resign: expected nil, got %w", err)
		}
		if _, err := t.waitTime(t.handoverBound(), "the next leader after a resignation", func() bool { return leaderOf(members) != nil }); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if leader.Leading() {
			return fmt.Errorf("round %d: expected the other candidate to lead after %s resigned, but the same one leads again", i, leader.node.key)
		}
	}
	return nil
}

func liveSticky(t *Trial) error {
	leader, others, err := t.startWithLeader(3, "jobs", nil)
	if err != nil {
		return err
	}
	term := must(t.waitForLeadership(t.takeoverBound(), leader)).Term

	t.checker.interval.Store(int64(t.TTL)) // a day without events needs few samples
	t.sleep(t.scaledTime(24 * time.Hour))
	l := leader.Leadership()
	if l == nil || l.Term != term {
		return fmt.Errorf("expected %s to keep leading in term %d, got %v", leader.node.key, term, leader.events())
	}
	for _, p := range append(others, leader) {
		n := 0
		for _, e := range p.events() {
			switch {
			case e.Kind == election.Elected:
				n++
			case n > 0 && e.Kind != election.Notice: // vacant or unknown
				n = -1
			}
		}
		if n != 1 {
			return fmt.Errorf("%s: expected one leadership that lasts, got %v", p.node.key, p.events())
		}
	}
	return nil
}
