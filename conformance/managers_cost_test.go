package conformance

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-election/go-election/election"
)

// The documented formulas for the calls of a node in a time d in which nothing happens.
// They do not depend on the number of elections, because a node renews, or reads, all of
// them in one call.
//
//	leader               d/RenewEvery renewals
//	follower, polling    d/RenewEvery readings
//	follower, listening  a reading for each change, and one for each TTL/2
//	every node           d/TTL announcements
var costCases = []Case{
	{Rule: "Q1", Name: "one idle election", Run: func(t *Trial) error { return costIdle(t, 1) },
		Says: "An idle election makes no more calls than the documented formula."},
	{Rule: "Q1", Name: "a hundred idle elections", Run: func(t *Trial) error { return costIdle(t, 100) },
		Says: "A node renews or reads many elections in one call, so the number of calls does not grow with the number of elections."},
	{Rule: "Q1", Name: "an election without a leader", Run: costVacant,
		Says: "An election without a leader costs no more calls than one with a leader."},
	{Rule: "Q1", Name: "an unavailable store is not called more often", Run: costOutage,
		Says: "A manager does not call the store more often because its calls fail."},
}

// idleTime is how long a case observes an idle election.
func (t *Trial) idleTime() time.Duration {
	if t.Short {
		return 20 * t.TTL
	}
	return 60 * t.TTL // ten minutes at the usual TTL
}

// maxTimes is how often something that happens once in every may happen within d, plus
// one.
func maxTimes(d, every time.Duration) int { return int(math.Ceil(float64(d)/float64(every))) + 1 }

// A callCounter counts the calls of a node from its creation on.
type callCounter struct {
	node        *node
	countBefore map[string]int
}

var allMethods = []string{"Acquire", "Renew", "Release", "Observe", "Listen", "Request", "List", "Announce", "Members"}

func newCallCounter(n *node) *callCounter {
	s := &callCounter{n, map[string]int{}}
	for _, m := range allMethods {
		s.countBefore[m] = n.wire.Count(m)
	}
	return s
}

// atMost compares the calls with the limits. A method without a limit must not be called.
func (s *callCounter) atMost(limits map[string]int) error {
	var errs []error
	for _, m := range allMethods {
		got := s.node.wire.Count(m) - s.countBefore[m]
		errs = append(errs, expect(got <= limits[m], fmt.Sprintf("%s: at most %d calls of %s", s.node.key, limits[m], m), got))
	}
	return errors.Join(errs...)
}

func costIdle(t *Trial, elections int) error {
	nodes := []*node{}
	var leading []*participant
	for _, id := range []string{"a", "b", "observer"} {
		n, err := t.node(id, func(o *election.Options) { o.Observer = id == "observer" })
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
		for i := range elections {
			p, err := n.join(fmt.Sprintf("jobs%03d", i))
			if err != nil {
				return err
			}
			if id == "observer" {
				continue
			}
			if err := p.lead(); err != nil {
				return err
			}
			if id == "a" {
				leading = append(leading, p)
			}
		}
		if id == "a" {
			if err := t.waitUntil(2*t.takeoverBound(), "a to lead everything", func() bool {
				for _, p := range leading {
					if !p.Leading() {
						return false
					}
				}
				return true
			}); err != nil {
				return err
			}
		}
	}
	t.sleep(3 * t.TTL)                     // until all nodes have settled
	t.checker.interval.Store(int64(t.TTL)) // an idle election needs few samples
	var counts []*callCounter
	for _, n := range nodes {
		counts = append(counts, newCallCounter(n))
	}
	d := t.idleTime()
	t.sleep(d)
	for _, p := range leading {
		if !p.Leading() {
			return fmt.Errorf("expected a to keep leading %s, got %v", p.Name(), p.events())
		}
	}
	renewals := maxTimes(d, t.renewEvery())
	limits := map[string]int{"Observe": renewals + 1} // one more, since a follower may see two renewals as one
	if t.Push {
		// Each renewal is a change. Listen returns once or twice for those of one call.
		limits["Listen"] = 2 * renewals
		limits["Observe"] = 2*renewals + maxTimes(d, t.TTL/2)
	}
	observer := map[string]int{}
	for m, n := range limits {
		observer[m] = n
	}
	limits["Announce"] = maxTimes(d, t.TTL)
	return errors.Join(
		counts[0].atMost(map[string]int{"Renew": renewals, "Announce": maxTimes(d, t.TTL)}),
		counts[1].atMost(limits),
		counts[2].atMost(observer),
	)
}

func costVacant(t *Trial) error {
	var counts []*callCounter
	for _, id := range []string{"a", "b"} {
		p, err := t.participant(id, "jobs", nil)
		if err != nil {
			return err
		}
		counts = append(counts, newCallCounter(p.node))
	}
	t.sleep(t.TTL)
	d := t.idleTime()
	for i, c := range counts {
		counts[i] = newCallCounter(c.node)
	}
	t.sleep(d)
	limits := map[string]int{"Observe": maxTimes(d, t.renewEvery()), "Announce": maxTimes(d, t.TTL)}
	if t.Push {
		limits["Listen"] = maxTimes(d, t.TTL)
	}
	return errors.Join(counts[0].atMost(limits), counts[1].atMost(limits))
}

func costOutage(t *Trial) error {
	leader, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	members := append(others, leader)
	t.sleep(t.TTL)
	for _, p := range members {
		p.node.wire.Decide(func(Call) Fate { return Fate{Err: errInjected} })
	}
	t.sleep(2 * t.TTL) // until the managers have noticed the outage
	var counts []*callCounter
	for _, p := range members {
		counts = append(counts, newCallCounter(p.node))
	}
	d := t.idleTime() / 2
	t.sleep(d)
	// A manager makes each kind of call at most as often as a leader renews, with a jitter
	// of a fifth.
	n := maxTimes(d, t.renewEvery()*4/5) + 1
	limits := map[string]int{"Acquire": n, "Release": n, "Observe": n, "Listen": n, "Announce": n}
	var errs []error
	for _, c := range counts {
		errs = append(errs, c.atMost(limits))
	}
	for _, p := range members {
		p.node.wire.Decide(nil)
	}
	_, _, err = t.waitForLeader(2*t.takeoverBound(), members...)
	return errors.Join(append(errs, err)...)
}
