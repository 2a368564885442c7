package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var livenessCases = []Case{
	{Rule: "L1", Name: "a takeover after a crash is in time", run: liveCrash,
		Says: "After a crash of the leader there is a new one within TTL + one reading."},
	{Rule: "L2", Name: "a handover after a resignation is fast", run: liveResign,
		Says: "After an orderly release another candidate leads within one push or one reading. Where the " +
			"store pushes, all know it before they read again, also observers and the one that resigned."},
	{Rule: "L4", Name: "no change of leader without a fault", run: liveSticky,
		Says: "The leader does not change without a fault, an operator's request or a resignation."},
}

func liveCrash(t *Trial) {
	phases := 6
	if t.Short || !t.Virtual {
		phases = 3
	}
	for i := range phases {
		name := fmt.Sprintf("jobs%d", i)
		leader, others := t.startWithLeader(3, name, nil)
		t.sleep(t.TTL + t.renewEvery()*time.Duration(i)/time.Duration(phases)) // between two renewals
		leader.node.crash()

		limit := t.TTL + t.TTL/20
		if t.Expiry != backend.ByChallengers {
			limit += t.renewEvery()
		}
		took := t.waitUntil(limit, "a new leader", func() bool { return leaderOf(others) != nil })
		if t.Expiry == backend.ByChallengers {
			least := t.TTL - t.renewEvery() - t.callTimeout() - t.Late
			require(expect(took >= least, took, "no takeover long before the TTL has passed"))
		}

		for _, p := range others {
			p.end(2 * t.TTL)
		}
	}
}

// liveResign lets leaders resign just after a renewal was read, and compares how long it takes until all
// others know the next one with how long the next reading takes to come. It must be fast in two of five
// rounds, since a machine may be busy.
func liveResign(t *Trial) {
	leader, others := t.startWithLeader(3, "jobs", nil)
	all := append(others, leader)
	for _, id := range []string{"x", "y", "z"} {
		all = append(all, t.participant(id, "jobs", nil))
	}

	var times []time.Duration
	for range 5 {
		leader, others := t.waitForLeader(t.takeoverBound(), all...)
		t.sleep(t.TTL) // the last one that resigned bids again
		t.awaitRenewal(leader)
		t.sleep(t.renewEvery() / 4) // whoever is not told has read that, and reads again after the next one

		began := time.Now()
		t.resign(leader)
		next, _ := t.waitForLeader(t.handoverBound(), others...)
		t.waitUntil(t.takeoverBound(), "all to know the next leader", func() bool {
			return !slices.ContainsFunc(all, func(p *participant) bool { return !p.knows(next) })
		})
		times = append(times, time.Since(began))
	}

	slices.Sort(times)
	enough := t.renewEvery() / 2 // before the next reading
	require(expect(!t.Push || times[1] <= enough, times, "all to know the next leader within %v", enough))
}

// awaitRenewal waits until a leader has just renewed its lease.
func (t *Trial) awaitRenewal(leader *participant) {
	left := t.TTL
	t.waitUntil(t.TTL, "the leader renews its lease", func() bool {
		l, before := leader.Leadership(), left
		if l == nil {
			fail("expected the leader to lead on")
		}
		left = l.Remaining()
		return left > before
	})
}

// knows reports whether p knows that leader leads, unless that has changed.
func (p *participant) knows(leader *participant) bool {
	known, _, ok := p.Leader()
	return ok && known.ID == leader.node.ID() || !leader.Leading()
}

func (t *Trial) resign(leader *participant) { must(leader.Resign(t.callContext()), "resign") }

func liveSticky(t *Trial) {
	leader, others := t.startWithLeader(3, "jobs", nil)
	_, term, _ := leader.Leader()
	t.checker.interval.Store(int64(t.TTL)) // a day without events needs few samples
	t.sleep(t.scaledTime(24 * time.Hour))
	require(expect(leader.Leading(), leader.events(), "%s to keep leading", leader.node.key))
	for _, p := range append(others, leader) {
		isNotice := func(e election.Event) bool { return e.Kind == election.Notice }
		states := slices.DeleteFunc(p.events(), isNotice)
		for len(states) > 0 && states[0].Kind != election.Elected {
			states = states[1:]
		}
		lasts := len(states) == 1 && states[0].Term == term
		require(expect(lasts, p.events(), "%s to see one leadership that lasts", p.node.key))
	}
}
