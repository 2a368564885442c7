package election

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The simulation runs several machines, each with a clock of its own, on one
// store behind a network that loses, delays, duplicates and reorders requests and
// answers. Nodes crash, stand still, leave and join; lead functions linger;
// operators nominate, depose, pause; the store fails over and loses a tail of its
// commits. All of it follows from one seed. Read on in
//
//	simulation_world_test.go   the world, its time and its seasons
//	simulation_node_test.go    a node: the shell around a machine, and its clock
//	simulation_net_test.go     requests and answers on their way
//	simulation_store_test.go   the store, and simulation_server_test.go its servers
//	simulation_fault_test.go   what goes wrong
//	simulation_check_test.go   what must hold, and when it is checked
//
// It checks, at every step that could break it:
//
//	S1  the intervals in which two nodes trust their lease never overlap, by true time
//	S2  nothing is trusted beyond the sending of the request + TTL − clock margin
//	S4  each leadership's term exceeds all earlier ones of its election, lost commits or not
//	S6  trust that has run out does not come back in the same term
//	S8  only the answer Granted to a bid or a renewal of that election makes trust
//	S9  a resource that refuses terms below the highest never refuses who leads
//	S10 events are a path: terms never go back, lost follows elected, none twice,
//	    none left out, and none that says the store went back when it did not
//	S11 one lead function at a time in a process, and no release before it has returned
//	S13 the store gives nobody a lease that somebody trusts
//	Q1  renewals keep to the grid, and calls do not swarm when they fail
//	L3  a while after the last fault, each election has exactly one leader, and
//	    all know who it is
//	L4  from then on it does not change
var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay this one seed, with a trace")
	simHours = flag.Int("sim.hours", 60, "virtual hours")
	simFrom  = flag.Uint64("sim.from", 1, "the first seed")
)

// worldHours is how long each seed's world lasts.
const worldHours = 5

func TestSimulation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(3000))
	if *simSeed != 0 {
		s := newSim(*simSeed, true)
		err := s.run(worldHours)
		t.Logf("%s\n%v", s.lastLines(400), &s.figures)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	began := time.Now()
	worlds := max(*simHours/worldHours, 1)
	total := simulate(t, *simFrom, worlds)
	t.Logf("seeds %d to %d in %v\n%v", *simFrom, *simFrom+uint64(worlds)-1, time.Since(began).Round(time.Second), total)
	if worlds >= len(storeKinds)*2 {
		total.requireHits(t)
	}
}

// simulate runs so many worlds, as many at a time as there are processors.
func simulate(t *testing.T, first uint64, worlds int) *figures {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		total  figures
		next   atomic.Uint64
		broken atomic.Int32
	)
	next.Store(first)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for broken.Load() < 3 {
				seed := next.Add(1) - 1
				if seed >= first+uint64(worlds) {
					return
				}
				s := newSim(seed, false)
				err := s.run(worldHours)
				mu.Lock()
				total.add(&s.figures)
				mu.Unlock()
				if err != nil {
					broken.Add(1)
					again := newSim(seed, true)
					again.run(worldHours)
					t.Errorf("%v\nreplay: go test ./election -run TestSimulation -v -sim.seed=%d\n%s", err, seed, again.lastLines(60))
				}
			}
		})
	}
	wg.Wait()
	return &total
}

// BenchmarkSimulation reports virtual hours a second on all cores, of the worlds
// that TestSimulation runs.
func BenchmarkSimulation(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(3000))
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := newSim(seed.Add(1), false).run(1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "virtual-hours/s")
}

// figures are what is counted. hits are those faults that met a leader.
type figures struct {
	hours                                  int
	calls, bids, renewals, grants          int
	leaderships, changes, writes, overlaps int
	refused                                int // by the fenced resource
	events, violations                     int
	slowest                                time.Duration // from the last fault to the last change of leader
	faults, hits                           [faults]int
}

func (f *figures) add(o *figures) {
	f.hours += o.hours
	f.calls, f.bids, f.renewals, f.grants = f.calls+o.calls, f.bids+o.bids, f.renewals+o.renewals, f.grants+o.grants
	f.leaderships, f.changes, f.writes, f.overlaps = f.leaderships+o.leaderships, f.changes+o.changes, f.writes+o.writes, f.overlaps+o.overlaps
	f.refused, f.events, f.violations = f.refused+o.refused, f.events+o.events, f.violations+o.violations
	f.slowest = max(f.slowest, o.slowest)
	for k := range faults {
		f.faults[k] += o.faults[k]
		f.hits[k] += o.hits[k]
	}
}

func (f *figures) String() string {
	all, hits := 0, 0
	kinds := ""
	for k := range faults {
		all, hits = all+f.faults[k], hits+f.hits[k]
		kinds += fmt.Sprintf("\n%-44s %10d %10d", k.String(), f.faults[k], f.hits[k])
	}
	text := ""
	for _, l := range []struct {
		name string
		n    any
	}{
		{"virtual hours", f.hours}, {"calls", f.calls}, {"bids granted", f.grants}, {"renewals granted", f.renewals},
		{"leaderships", f.leaderships}, {"changes of leader", f.changes}, {"events told", f.events},
		{"writes to the fenced resource", f.writes}, {"… that came while another led", f.overlaps}, {"… and were refused", f.refused},
		{"longest from the last fault to a leader", f.slowest.Round(time.Millisecond)}, {"violations", f.violations},
	} {
		text += fmt.Sprintf("%-44s %10v\n", l.name, l.n)
	}
	return fmt.Sprintf("%s%-44s %10d %10d%s", text, "faults, and those that hit a leader", all, hits, kinds)
}

// bite fails if some kind of fault never hit a leader: then nothing is known of
// it. An unfenced resource must have suffered, too.
func (f *figures) requireHits(t *testing.T) {
	for k := range faults {
		if f.hits[k] == 0 {
			t.Errorf("%v: %d of them, and none hit a leader", k, f.faults[k])
		}
	}
	if f.overlaps == 0 || f.refused == 0 {
		t.Errorf("no write came late: the fence was not tried")
	}
}
