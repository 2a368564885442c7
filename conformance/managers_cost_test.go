package conformance

import (
	"fmt"
	"math"
	"time"

	"github.com/go-election/go-election/election"
)

// The documented formulas for the calls of a node in a time d in which nothing happens. They do not depend on the number of
// elections, because a node renews, or reads, all of them in one call.
//
//	leader               d/RenewEvery renewals
//	follower, polling    d/RenewEvery readings
//	follower, listening  a reading for each change, and one for each TTL/2
//	every node           d/TTL announcements
var costCases = []Case{
	{Rule: "Q1", Name: "a hundred idle elections", run: costIdle,
		Says: "Idle elections make no more calls than the documented formula. A node renews or reads many elections in one call, so the number of calls does not grow with the number of elections."},
	{Rule: "Q1", Name: "an election without a leader", run: costVacant,
		Says: "An election without a leader costs no more calls than one with a leader."},
}

// idleTime is how long a case observes an idle election: ten minutes at the usual TTL.
func (t *Trial) idleTime() time.Duration { return 60 * t.TTL }

// maxTimes is how often something that happens once in every may happen within d, plus one.
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
func (s *callCounter) atMost(limits map[string]int) {
	for _, m := range allMethods {
		got := s.node.wire.Count(m) - s.countBefore[m]
		require(expect(got <= limits[m], got, "%s: at most %d calls of %s", s.node.key, limits[m], m))
	}
}

func costIdle(t *Trial) {
	nodes := map[string]*node{}
	var leading []*participant
	for _, id := range []string{"a", "b", "observer"} {
		n := t.node(id, func(o *election.Options) { o.Observer = id == "observer" })
		nodes[id] = n
		for i := range 100 {
			p := n.join(fmt.Sprintf("jobs%03d", i))
			if id != "observer" {
				p.lead()
			}
			if id == "a" {
				leading = append(leading, p)
			}
		}
		for _, p := range leading {
			t.waitForLeader(2*t.takeoverBound(), p)
		}
	}
	t.sleep(3 * t.TTL)                     // until all nodes have settled
	t.checker.interval.Store(int64(t.TTL)) // an idle election needs few samples

	a, b, observer := newCallCounter(nodes["a"]), newCallCounter(nodes["b"]), newCallCounter(nodes["observer"])
	d := t.idleTime()
	t.sleep(d)
	for _, p := range leading {
		require(expect(p.Leading(), p.events(), "a to keep leading %s", p.Name()))
	}

	renewals := maxTimes(d, t.renewEvery())
	limits := map[string]int{"Observe": renewals + 1} // one more, since a follower may see two renewals as one
	if t.Push {
		// Each renewal is a change. Listen returns once or twice for those of one call.
		limits["Listen"] = 2 * renewals
		limits["Observe"] = 2*renewals + maxTimes(d, t.TTL/2)
	}
	observer.atMost(limits)
	limits["Announce"] = maxTimes(d, t.TTL)
	b.atMost(limits)
	a.atMost(map[string]int{"Renew": renewals, "Announce": maxTimes(d, t.TTL)})
}

func costVacant(t *Trial) {
	p, q := t.participant("a", "jobs", nil), t.participant("b", "jobs", nil)
	t.sleep(t.TTL)
	a, b := newCallCounter(p.node), newCallCounter(q.node)
	d := t.idleTime()
	t.sleep(d)

	limits := map[string]int{"Observe": maxTimes(d, t.renewEvery()), "Announce": maxTimes(d, t.TTL)}
	if t.Push {
		limits["Listen"] = maxTimes(d, t.TTL)
	}
	a.atMost(limits)
	b.atMost(limits)
}
