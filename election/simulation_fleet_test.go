package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A fleet is a world without faults, on a store that notifies and is polled as well, as those of package lease are. A
// message takes up to 3.2 ms.
func fleet(t *testing.T, candidates, observers int) *sim {
	s := &sim{seed: 1, random: rand.New(rand.NewPCG(1, 17)), calm: true, elections: 1, state: make([]simElection, 1)}
	s.store = newSimStore(s, failingOver)
	s.store.notifier = true
	for i := range candidates + observers {
		n := &simNode{s: s, id: fmt.Sprint("n", i), rate: 1, ttl: DefaultTTL, observer: i >= candidates, places: make([]simPlace, 1)}
		s.nodes = append(s.nodes, n)
		s.after(s.upTo(time.Second), n.start)
	}
	s.until(time.Minute)
	t.Cleanup(s.end)
	return s
}

// A handover is what the resignation of a leader has cost.
type handover struct {
	vacant, news time.Duration // until the next one led, and from then until everybody knew
	bids, calls  int
}

func (s *sim) leader() *simNode {
	for _, n := range s.nodes {
		if n.trusts(&n.places[0]) {
			return n
		}
	}
	return nil
}

// handOver lets the leader resign, and waits for more than the time for which it does not bid.
func (s *sim) handOver(t *testing.T) (h handover) {
	t.Helper()
	former, began := s.leader(), s.now
	if former == nil {
		t.Fatal("nobody leads")
	}
	bids, calls := s.figures.bids, s.figures.calls
	p := &former.places[0]
	former.input(resign{p.e, p.e.term})
	former.functionReturnsAfter(p, p.running, ReasonReturned, 0)
	wait := func(what string, done func() bool) time.Duration {
		for ; !done(); s.until(s.now + 100*time.Microsecond) {
			if s.now > began+5*time.Second {
				t.Fatalf("%v after a resignation: not %s", s.now-began, what)
			}
		}
		return s.now - began
	}
	h.vacant = wait("a leader", func() bool { return s.leader() != nil })
	nonce := s.leader().nonce
	h.news = -h.vacant + wait("known to all", func() bool {
		return !slices.ContainsFunc(s.nodes, func(n *simNode) bool {
			return n.up && n.places[0].lastEvent.Leader.Nonce != nonce
		})
	})
	h.bids, h.calls = s.figures.bids-bids, s.figures.calls-calls
	s.until(began + DefaultTTL)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return h
}

// In a small fleet nobody waits for a turn: a handover takes a few messages, and everybody hears of it.
func TestASmallFleetHandsOverAtOnce(t *testing.T) {
	s := fleet(t, 3, 3)
	for range 20 {
		h := s.handOver(t)
		if t.Logf("%+v", h); h.vacant > 25*time.Millisecond || h.news > 25*time.Millisecond || h.calls > 32 {
			t.Errorf("a handover of 3 candidates: %+v", h)
		}
	}
}

// A thousand candidates learn that they are many from being passed over. Then few of them bid. A handover takes no
// longer than that of three.
func TestAFleetOfAThousandDoesNotBidAtOnce(t *testing.T) {
	s := fleet(t, 1000, 10)
	var vacant []time.Duration
	for i := range 20 {
		h := s.handOver(t)
		if t.Logf("%+v", h); h.vacant > 75*time.Millisecond || h.news > 75*time.Millisecond || h.bids > 500 || i >= 6 && h.bids > 60 {
			t.Errorf("handover %d of 1000 candidates: %+v", i, h)
		}
		vacant = append(vacant, h.vacant)
	}
	slices.Sort(vacant)
	if median := vacant[len(vacant)/2]; median > 25*time.Millisecond {
		t.Errorf("a handover of 1000 candidates takes %v at the median; want no more than one of three", median)
	}
}

// Candidates of a large fleet wait for their turns though the others have gone. Each turn comes soon.
func TestTheLastOfAFleetBid(t *testing.T) {
	s := fleet(t, 1000, 0)
	for range 14 {
		s.handOver(t)
	}
	leader, left := s.leader(), 0
	for _, n := range s.nodes {
		if n != leader && n.places[0].e.passedOver > 12 && left < 2 {
			left++
		} else if n != leader {
			n.up = false // it has crashed
		}
	}
	for range 3 {
		if h := s.handOver(t); h.vacant > leader.opts.RenewEvery/8+25*time.Millisecond {
			t.Errorf("a handover to the last of the fleet: %+v", h)
		}
	}
}
