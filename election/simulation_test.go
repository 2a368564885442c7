package election

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
)

// The simulation runs several machines, each with a clock of its own rate, on one
// store behind a network that loses, delays and reorders requests and answers.
// Nodes crash, restart, stand still; lead functions linger; operators nominate,
// depose, pause. Everything follows from one seed. The invariants are checked
// whenever belief begins or grows:
//
//	S1  the intervals in which two nodes trust their lease never overlap
//	S4  each reign's term exceeds all earlier ones of its election
//	S11 one lead function at a time in a process
//	S10 each node's events are a path: terms never go back, lost follows elected
//	L3  once the faults have ended, each election has exactly one leader
var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay this one seed, with a trace")
	simHours = flag.Int("sim.hours", 40, "virtual hours")
)

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		s := newSim(*simSeed, 2, true)
		err := s.run(time.Duration(*simHours) * time.Hour)
		t.Logf("%s\n%s", strings.Join(s.lines[max(0, len(s.lines)-400):], "\n"), s.stats())
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	const each = 5 // hours
	for seed := uint64(1); seed <= uint64(*simHours/each); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			s := newSim(seed, 2, false)
			if err := s.run(each * time.Hour); err != nil {
				again := newSim(seed, 2, true)
				again.run(each * time.Hour)
				t.Fatalf("%v\nreplay: go test ./election -run TestSimulation -sim.seed=%d -sim.hours=%d\n%s",
					err, seed, each, strings.Join(again.lines[max(0, len(again.lines)-60):], "\n"))
			}
			if s.reigns < 3 {
				t.Errorf("%d reigns: the faults did not bite", s.reigns)
			}
			t.Log(s.stats())
		})
	}
}

// BenchmarkSimulation reports virtual hours a second on all cores: five nodes, one
// election on a store that must be read, and a fault every ten minutes.
func BenchmarkSimulation(b *testing.B) {
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s := newSim(seed.Add(8), 1, false)
			s.push = false
			if err := s.run(time.Hour); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "virtual-hours/s")
}

type sim struct {
	seed      uint64
	rnd       *rand.Rand
	now       time.Duration // true time
	events    simHeap
	seq       int
	store     *memory.Store
	elections int
	nodes     []*simNode
	terms     map[string]uint64 // the greatest so far
	calm      bool              // no faults
	err       error
	push      bool
	pace      time.Duration // mean time between the faults of a node
	tracing   bool
	lines     []string

	calls, faults, reigns, grants int
}

// newSim prepares five nodes that campaign in so many elections. Odd seeds have
// a store that must be read, even ones a store with news; every eighth is quiet.
func newSim(seed uint64, elections int, trace bool) *sim {
	s := &sim{seed: seed, rnd: rand.New(rand.NewPCG(seed, 17)), elections: elections, terms: map[string]uint64{}, tracing: trace}
	s.push = seed%2 == 0
	s.pace = 30 * time.Second
	if seed%8 == 0 {
		s.pace = 10 * time.Minute
	}
	return s
}

func (s *sim) begin() {
	s.store = memory.New(&memory.Options{Poll: !s.push, Now: func() time.Time { return time.Unix(1e9, 0).Add(s.now) }})
	for i := range 5 {
		n := &simNode{s: s, i: i, id: fmt.Sprint("n", i), rate: rates[s.rnd.IntN(len(rates))]}
		s.nodes = append(s.nodes, n)
		n.start()
		s.after(s.exp(s.pace), func() { n.fault() })
	}
}

// rates are those of the nodes' clocks: two of them may differ as far as the
// default margin of TTL/6 allows.
var rates = []float64{1 - 0.0833, 1 - 0.0833, 1, 1 + 0.0833, 1 + 0.0833}

func (s *sim) run(d time.Duration) error {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	s.begin()
	for t := time.Hour; ; t += time.Hour {
		s.until(min(t, d) - 4*time.Minute)
		s.heal()
		s.until(min(t, d))
		s.live()
		s.calm = false
		if s.err != nil || t >= d {
			return s.err
		}
	}
}

func (s *sim) until(t time.Duration) {
	for s.err == nil && len(s.events) > 0 && s.events[0].at <= t {
		e := heap.Pop(&s.events).(simEvent)
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, t)
}

func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, simEvent{s.now + max(d, 0), s.seq, do})
}

func (s *sim) exp(mean time.Duration) time.Duration {
	return time.Duration(s.rnd.ExpFloat64() * float64(mean))
}

func (s *sim) span(most time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(most)))
}

func (s *sim) trace(n *simNode, format string, args ...any) {
	if s.tracing {
		s.lines = append(s.lines, fmt.Sprintf("%12.6f %s ", s.now.Seconds(), n.id)+fmt.Sprintf(format, args...))
	}
}

func (s *sim) fail(n *simNode, format string, args ...any) {
	s.trace(n, format, args...)
	if s.err == nil {
		s.err = fmt.Errorf("seed %d at %v: %s", s.seed, s.now, n.id+" "+fmt.Sprintf(format, args...))
	}
}

func (s *sim) stats() string {
	return fmt.Sprintf("%v virtual, %d calls, %d faults, %d grants, %d reigns", s.now, s.calls, s.faults, s.grants, s.reigns)
}

// heal ends all faults.
func (s *sim) heal() {
	s.calm = true
	for _, n := range s.nodes {
		n.cut, n.deaf, n.slow, n.sick = false, false, 0, false
		if !n.up {
			n.start()
		}
		n.resume()
		n.input(suspend{nil, false})
	}
}

// live checks that each election has exactly one leader.
func (s *sim) live() {
	if s.err != nil {
		return
	}
	for e := range s.nodes[0].elecs {
		leaders := 0
		for _, n := range s.nodes {
			if b := &n.belief[e]; b.leading && n.local() < b.until {
				leaders++
			}
		}
		if leaders != 1 {
			s.fail(s.nodes[0], "L3: four minutes after the last fault election %d has %d leaders", e, leaders)
		}
	}
}

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type simHeap []simEvent

func (h simHeap) Len() int { return len(h) }
func (h simHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h simHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *simHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
