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

// The simulation runs several machines, each with its own clock, on one store and a network that loses, delays, duplicates
// and reorders requests and answers. Nodes crash, stop, leave and join; lead functions return late; operators nominate,
// depose and pause; the store fails over and loses its last commits. One seed determines everything.
//
//	simulation_world_test.go   the world and its time
//	simulation_node_test.go    a node: the shell around a machine, and its clock
//	simulation_net_test.go     requests and answers on the network
//	simulation_store_test.go   the store
//	simulation_server_test.go  the store's servers
//	simulation_fault_test.go   faults
//	simulation_check_test.go   rules, and when they are checked
//	simulation_lease_test.go   the same over the code of package lease
//
// It checks, at every step that could break one of them:
//
//	S1  the intervals in which two nodes trust their lease never overlap, by true time
//	S2  a node trusts no lease beyond the sending of the request + TTL − clock margin
//	S4  each leadership's term exceeds all earlier ones of its election, even after lost commits
//	S6  trust that has ended does not return in the same term
//	S8  only the answer Granted to a bid or a renewal of that election creates trust
//	S9  a resource that rejects terms below the highest never rejects the leader
//	S10 events form a path: terms never decrease, lost follows elected, none comes twice,
//	    none is missing, and none reports falsely that the store went back
//	S11 one lead function at a time in a process, and no release before it has returned
//	S13 the store grants no lease that another node trusts
//	Q1  renewals keep to the grid, and failing calls do not become more frequent
//	L3  within a bound after the last fault, each election has exactly one leader, and all
//	    nodes know it
//	L4  from then on the leader does not change
var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay this one seed, with a trace")
	simHours = flag.Int("sim.hours", 60, "virtual hours")
	simFrom  = flag.Uint64("sim.from", 1, "the first seed")
)

// worldHours is how long each seed's world lasts.
const worldHours = 5

func TestSimulation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(3000))
	runSimulation(t, storeKinds, *simHours)
}

// runSimulation replays one seed, or runs worlds with these kinds of stores.
func runSimulation(t *testing.T, kinds []storeKind, hours int) {
	if *simSeed != 0 {
		s := newWorld(*simSeed, kinds, true)
		err := s.run(worldHours)
		t.Logf("%s\n%v", s.lastLines(400), &s.figures)
		noError(t, err)
		return
	}
	began := time.Now()
	worlds := max(hours/worldHours, 1)
	total := simulate(t, kinds, *simFrom, worlds)
	t.Logf("seeds %d to %d in %v\n%v", *simFrom, *simFrom+uint64(worlds)-1, time.Since(began).Round(time.Second), total)
	if worlds >= len(kinds)*2 {
		total.requireHits(t, kinds)
	}
}

// simulate runs this many worlds, one on each processor at a time.
func simulate(t *testing.T, kinds []storeKind, first uint64, worlds int) *figures {
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
				s := newWorld(seed, kinds, false)
				err := s.run(worldHours)
				mu.Lock()
				total.add(&s.figures)
				mu.Unlock()
				if err != nil {
					broken.Add(1)
					again := newWorld(seed, kinds, true)
					again.run(worldHours)
					t.Errorf("%v\nreplay: go test ./election -run '%s$' -v -sim.seed=%d\n%s", err, t.Name(), seed, again.lastLines(60))
				}
			}
		})
	}
	wg.Wait()
	return &total
}

// BenchmarkSimulation reports virtual hours per second on all cores, for the worlds of TestSimulation.
func BenchmarkSimulation(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(3000))
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			noError(b, newSim(seed.Add(1), false).run(1))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "virtual-hours/s")
}

// figures are the counters of a run. hits are the faults that hit a leader.
type figures struct {
	hours                                  int
	calls, bids, renewals, grants          int
	leaderships, changes, writes, overlaps int
	refused                                int // writes, by the fenced resource
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
		if f.faults[k] == 0 { // another simulation has it
			continue
		}
		all, hits = all+f.faults[k], hits+f.hits[k]
		kinds += fmt.Sprintf("\n%-44s %10d %10d", k.String(), f.faults[k], f.hits[k])
	}
	text := ""
	for _, l := range []struct {
		name string
		n    any
	}{
		{"virtual hours", f.hours}, {"calls", f.calls}, {"bids granted", f.grants}, {"renewals granted", f.renewals},
		{"leaderships", f.leaderships}, {"changes of leader", f.changes}, {"events reported", f.events},
		{"writes to the fenced resource", f.writes}, {"writes while another node led", f.overlaps}, {"writes that were rejected", f.refused},
		{"longest time from the last fault to a leader", f.slowest.Round(time.Millisecond)}, {"violations", f.violations},
	} {
		text += fmt.Sprintf("%-44s %10v\n", l.name, l.n)
	}
	return fmt.Sprintf("%s%-44s %10d %10d%s", text, "all faults, and those that hit a leader", all, hits, kinds)
}

// requireHits fails if one kind of fault never hit a leader: then the run says nothing about it. It
// also fails if no write came while another node led, because then the fence was not tested.
func (f *figures) requireHits(t *testing.T, kinds []storeKind) {
	for k := range faults {
		if f.hits[k] == 0 && kinds[0].has(k) {
			t.Errorf("%v: none of %d hit a leader", k, f.faults[k])
		}
	}
	if f.overlaps == 0 || f.refused == 0 {
		t.Errorf("no write came late: the fence was not tested")
	}
}
