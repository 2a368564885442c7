package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/go-election/go-election/election"
)

// The formulas that an idle election may cost, in calls of a node over a time d
// in which nothing happens. They do not depend on the number of elections, as
// renewals travel together and so do readings.
//
//	leader             d/RenewEvery renewals
//	follower, polled   d/RenewEvery readings
//	follower, pushed   a reading for each change heard, and one for each TTL/2
//	everybody          d/TTL announcements
var costCases = []Case{
	{Rule: "Q1", Name: "one idle election", Run: func(t *Trial) error { return costIdle(t, 1) },
		Says: "An idle election makes no more calls than the documented formula."},
	{Rule: "Q1", Name: "a hundred idle elections", Run: func(t *Trial) error { return costIdle(t, 100) },
		Says: "Renewals and readings of many elections travel together: the number of calls does not grow with the number of elections."},
	{Rule: "Q1", Name: "an election without a leader", Run: costVacant,
		Says: "An election that nobody leads costs no more than one that is led."},
	{Rule: "Q1", Name: "a store that is away is not polled faster", Run: costOutage,
		Says: "Nothing polls faster because it fails."},
}

// idle is how long a case looks at an idle election.
func (t *Trial) idle() time.Duration {
	switch {
	case !t.Virtual:
		return 5 * t.TTL
	case t.Short:
		return 20 * t.TTL
	}
	return 60 * t.TTL // ten minutes at the usual TTL
}

// times is how often something that comes every so often may come within d, with
// one to spare.
func times(d, every time.Duration) int { return int(math.Ceil(float64(d)/float64(every))) + 1 }

// spent counts the calls of a node since the last time.
type spent struct {
	n            *node
	base, failed map[string]int
}

var methods = []string{"Acquire", "Renew", "Release", "Observe", "Listen", "Ask", "List", "Announce", "Members"}

func spend(n *node) *spent {
	s := &spent{n, map[string]int{}, n.wire.failures()}
	for _, m := range methods {
		s.base[m] = n.wire.Count(m)
	}
	return s
}

// failures returns how many calls have failed, by method.
func (w *Wire) failures() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.failed)
}

// more allows as many calls more as have failed since, which are made again: on a busy
// machine a store answers late now and then.
func (s *spent) more(limits map[string]int) map[string]int {
	limits = maps.Clone(limits)
	for m, n := range s.n.wire.failures() {
		if limits[m] > 0 {
			limits[m] += n - s.failed[m]
		}
	}
	return limits
}

// atMost compares what was spent since with what may be. Methods that are not
// named may not be called at all.
func (s *spent) atMost(limits map[string]int) error {
	var errs []error
	for _, m := range methods {
		got := s.n.wire.Count(m) - s.base[m]
		errs = append(errs, must(got <= limits[m], fmt.Sprintf("%s: at most %d calls of %s", s.n.key, limits[m], m), got))
	}
	return errors.Join(errs...)
}

func costIdle(t *Trial, elections int) error {
	nodes := []*node{}
	var led []*seat
	for _, id := range []string{"a", "b", "observer"} {
		n, err := t.node(id, func(o *election.Options) { o.Observer = id == "observer" })
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
		for i := range elections {
			s, err := n.join(fmt.Sprintf("jobs%03d", i))
			if err != nil {
				return err
			}
			if id == "observer" {
				continue
			}
			if err := s.lead(); err != nil {
				return err
			}
			if id == "a" {
				led = append(led, s)
			}
		}
		if id == "a" {
			if err := t.until(2*t.bound(), "a to lead everything", func() bool {
				for _, s := range led {
					if !s.Leading() {
						return false
					}
				}
				return true
			}); err != nil {
				return err
			}
		}
	}
	t.sleep(3 * t.TTL)               // until everything has found its pace
	t.judge.pace.Store(int64(t.TTL)) // where nothing happens there is little to sample
	var counts []*spent
	for _, n := range nodes {
		counts = append(counts, spend(n))
	}
	d := t.idle()
	t.sleep(d)
	for _, s := range led {
		if !s.Leading() {
			return fmt.Errorf("expected a to lead %s all the time, got %v", s.Name(), s.events())
		}
	}
	renewals := times(d, t.renewEvery())
	limits := map[string]int{"Observe": renewals + 1} // two renewals may seem to be one
	if t.Push {
		// Each renewal is news. Crowds of it are heard together, or in two parts.
		limits["Listen"] = 2 * renewals
		limits["Observe"] = 2*renewals + times(d, t.TTL/2)
	}
	observer := map[string]int{}
	for m, n := range limits {
		observer[m] = n
	}
	limits["Announce"] = times(d, t.TTL)
	return errors.Join(
		counts[0].atMost(counts[0].more(map[string]int{"Renew": renewals, "Announce": times(d, t.TTL)})),
		counts[1].atMost(counts[1].more(limits)),
		counts[2].atMost(counts[2].more(observer)),
	)
}

func costVacant(t *Trial) error {
	var counts []*spent
	for _, id := range []string{"a", "b"} {
		s, err := t.seat(id, "jobs", nil)
		if err != nil {
			return err
		}
		counts = append(counts, spend(s.node))
	}
	t.sleep(t.TTL)
	d := t.idle()
	for i, c := range counts {
		counts[i] = spend(c.n)
	}
	t.sleep(d)
	limits := map[string]int{"Observe": times(d, t.renewEvery()), "Announce": times(d, t.TTL)}
	if t.Push {
		limits["Listen"] = times(d, t.TTL)
	}
	return errors.Join(counts[0].atMost(counts[0].more(limits)), counts[1].atMost(counts[1].more(limits)))
}

func costOutage(t *Trial) error {
	leader, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	seats := append(others, leader)
	t.sleep(t.TTL)
	for _, s := range seats {
		s.node.wire.Decide(func(Call) Fate { return Fate{Err: errOut} })
	}
	t.sleep(2 * t.TTL) // until it has noticed
	var counts []*spent
	for _, s := range seats {
		counts = append(counts, spend(s.node))
	}
	d := t.idle() / 2
	t.sleep(d)
	// Each kind of call is tried at most as often as a leader would renew, less
	// the jitter of a fifth.
	n := times(d, t.renewEvery()*4/5) + 1
	limits := map[string]int{"Acquire": n, "Release": n, "Observe": n, "Listen": n, "Announce": n}
	var errs []error
	for _, c := range counts {
		errs = append(errs, c.atMost(limits))
	}
	for _, s := range seats {
		s.node.wire.Decide(nil)
	}
	_, _, err = t.elected(2*t.bound(), seats...)
	return errors.Join(append(errs, err)...)
}
