package election

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A sim is one world: its true time, the scheduled events, the store and the nodes.
type sim struct {
	seed       uint64
	random     *rand.Rand
	now        time.Duration // true time
	events     queue
	scheduled  int // events so far
	store      *simStore
	elections  int
	nodes      []*simNode
	state      []simElection
	faultEvery time.Duration // mean time between the faults of a node
	calm       bool          // no faults
	settled    bool          // leaders must not change
	healed     time.Duration // when the last fault ended
	err        error

	tracing bool
	lines   []string // the latest lines of the trace
	figures figures
}

type simElection struct {
	term    uint64   // the greatest term of a leadership
	leader  *simNode // the last leader
	fence   uint64   // the highest term that the resource has seen
	writer  *simNode
	writing int // the writer's life
}

// newSim creates the world of a seed, with a store that follows the contract of package backend.
func newSim(seed uint64, trace bool) *sim { return newWorld(seed, storeKinds, trace) }

// newWorld creates the world of a seed: a kind of store, three to nine nodes, one to three elections.
// Every eighth world has few faults.
func newWorld(seed uint64, kinds []storeKind, trace bool) *sim {
	s := &sim{seed: seed, random: rand.New(rand.NewPCG(seed, 17)), tracing: trace}
	s.elections = 1 + s.random.IntN(3)
	s.state = make([]simElection, s.elections)
	s.store = newSimStore(s, kinds[seed%uint64(len(kinds))])
	nodes := 3 + s.random.IntN(7)
	s.faultEvery = time.Duration(nodes) * 6 * time.Second
	if seed%8 == 0 {
		s.faultEvery *= 20
	}
	same := s.random.IntN(2) == 0
	for i := range nodes {
		n := &simNode{s: s, i: i, id: fmt.Sprint("n", i), rate: s.randomRate(), ttl: DefaultTTL, boot: s.random.IntN(2) == 0}
		if !same {
			n.ttl = []time.Duration{6 * time.Second, 10 * time.Second, 14 * time.Second}[s.random.IntN(3)]
		}
		n.observer = i == 3 && s.random.IntN(3) == 0
		n.hasHealthCheck = s.random.IntN(3) == 0
		s.nodes = append(s.nodes, n)
	}
	return s
}

// randomRate returns a rate for a node's clock. Two rates differ by slightly less than the default clock
// margin of TTL/6 allows.
func (s *sim) randomRate() float64 {
	return []float64{1 - 0.09, 1 - 0.09, 1, 1 + 0.09, 1 + 0.09}[s.random.IntN(5)]
}

// run simulates this many hours. At the end of each hour the faults end, and run checks the rules for
// calm times. One hour has a long calm time.
func (s *sim) run(hours int) error {
	defer s.end()
	for _, n := range s.nodes {
		n.start()
		s.after(s.exponential(s.faultEvery), n.fault)
	}
	s.after(s.exponential(4*time.Minute), s.store.fault)
	for h := range hours {
		end := time.Duration(h+1) * time.Hour
		calm := 5 * time.Minute
		if h == 3 {
			calm = 30 * time.Minute
		}
		s.until(end - calm)
		s.heal()
		s.until(s.healed + s.bound())
		s.checkLeaders()
		s.settled = true
		s.until(end)
		s.checkLeaders()
		s.calm, s.settled = false, false
		for _, n := range s.nodes {
			n.m.Reclaim = s.reclaim()
		}
		s.figures.hours++
		if s.err != nil {
			break
		}
	}
	return s.err
}

func (s *sim) end() {
	for _, n := range s.nodes {
		n.closeLease(false)
	}
}

// bound is the time within which an election must have a leader after the last fault. It is the sum of the greatest delay of
// a message, an observation, the return of functions, a renewal, a call, and the times for which candidates hold back.
func (s *sim) bound() time.Duration {
	ttl := 14 * time.Second
	bound := maxDelay + s.store.maxTTL*11/10 + 2*ttl + ttl/3 + ttl/4 + s.failoverDelay() + s.incumbentGrace()
	if s.hasPriorities() {
		bound += 2 * (ttl/3 + ttl/4)
	}
	return bound
}

// hasPriorities reports whether the nodes have three different priorities. They claim leaderships only
// while there are faults, so that the leader does not change in calm times.
func (s *sim) hasPriorities() bool { return s.seed%9 == 4 }

func (s *sim) reclaim() time.Duration {
	if s.hasPriorities() && !s.calm {
		return 20 * time.Second
	}
	return 0
}

func (s *sim) failoverDelay() time.Duration {
	if s.seed%8 == 3 { // it can hide a violation, so most seeds have none
		return 5 * time.Second
	}
	return 0
}

func (s *sim) incumbentGrace() time.Duration {
	if s.seed%8 == 5 {
		return 3 * time.Second
	}
	return 0
}

func (s *sim) until(t time.Duration) {
	for s.err == nil && len(s.events) > 0 && s.events[0].at <= t {
		e := heap.Pop(&s.events).(scheduled)
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, t)
}

func (s *sim) after(d time.Duration, do func()) {
	s.scheduled++
	heap.Push(&s.events, scheduled{s.now + max(d, 0), s.scheduled, do})
}

func (s *sim) exponential(mean time.Duration) time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(mean))
}

func (s *sim) upTo(most time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(most)))
}

func (s *sim) oneIn(in int) bool { return s.random.IntN(in) == 0 }

func (s *sim) heal() {
	s.calm, s.healed = true, s.now
	s.store.heal()
	for _, n := range s.nodes {
		n.heal()
	}
}

// trace adds a line to the trace of a replay. Frequent callers check tracing first.
func (s *sim) trace(who, format string, args ...any) {
	if s.tracing {
		if len(s.lines) >= 1000 {
			s.lines = append(s.lines[:0], s.lines[500:]...)
		}
		s.lines = append(s.lines, fmt.Sprintf("%14.6f %-5s ", s.now.Seconds(), who)+fmt.Sprintf(format, args...))
	}
}

func (s *sim) lastLines(n int) string {
	return strings.Join(s.lines[max(0, len(s.lines)-n):], "\n")
}

// fail records that a rule is broken. The first violation ends the world.
func (s *sim) fail(who, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.trace(who, "BROKEN: %s", text)
	s.figures.violations++
	if s.err == nil {
		s.err = fmt.Errorf("seed %d at %v: %s: %s", s.seed, s.now, who, text)
	}
}

// A queue is a heap of scheduled events, in order of time, and of scheduling for equal times.
type queue []scheduled

type scheduled struct {
	at  time.Duration
	seq int
	do  func()
}

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(scheduled)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = scheduled{}
	*q = (*q)[:last]
	return e
}
