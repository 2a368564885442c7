package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var livenessCases = []Case{
	{Rule: "L1", Name: "a takeover after a crash is in time", Run: liveCrash,
		Says: "After a crash of the leader there is a new one within TTL + one reading."},
	{Rule: "L2", Name: "a handover after a resignation is fast", Run: liveResign,
		Says: "After an orderly release there is a new leader within one push or one reading."},
	{Rule: "L4", Name: "no change of leader without a fault", Run: liveSticky,
		Says: "The leader does not change without a fault, an operator's request or a resignation."},
	{Rule: "L9", Name: "everybody hears of the next leader at once", Run: liveNews, skip: needsListen,
		Says: "Where the store pushes, all candidates and observers know the next leader long before they would read again, and so does the one that resigned."},
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

		limit := t.TTL + t.TTL/20
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
		if err := t.resign(leader); err != nil {
			return err
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

// liveNews lets leaders resign, and compares how long the others take to hear of the next one with how long a reading
// takes to come. It must be fast in two of four rounds, since a machine may be busy.
func liveNews(t *Trial) error {
	_, _, err := t.startWithLeader(3, "jobs", nil)
	if err != nil {
		return err
	}
	for _, id := range []string{"x", "y", "z"} {
		must(t.participant(id, "jobs", nil))
	}
	var all []*participant
	for _, n := range t.nodes {
		all = append(all, n.participants...)
	}

	var times []time.Duration
	for range 4 {
		leader, others, err := t.waitForLeader(t.takeoverBound(), all...)
		if err != nil {
			return err
		}
		t.sleep(t.TTL) // the last one that resigned bids again
		require(t.resign(leader))

		next, _, err := t.waitForLeader(t.handoverBound(), others...)
		if err != nil {
			return err
		}
		took := must(t.waitTime(t.takeoverBound(), "all to know the next leader", func() bool {
			return !slices.ContainsFunc(all, func(p *participant) bool { return !p.knows(next) })
		}))
		times = append(times, took)
	}

	slices.Sort(times)
	return expect(times[1] <= t.renewEvery()/3, fmt.Sprintf("all to know the next leader within %v, a third of the time between two readings", t.renewEvery()/3), times)
}

// knows reports whether p knows that leader leads, unless that has changed.
func (p *participant) knows(leader *participant) bool {
	known, _, ok := p.Leader()
	return ok && known.ID == leader.node.ID() || !leader.Leading()
}

// resign makes a leader resign.
func (t *Trial) resign(leader *participant) error {
	ctx, cancel := t.callContext()
	defer cancel()
	if err := leader.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
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
