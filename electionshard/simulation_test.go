package electionshard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// The simulation runs the planners of a whole fleet against a store in virtual time. What each process sees is old by up to
// a second, or a TTL for the members, and the store grants a vacant shard to the first that bids.
const (
	simTTL   = 10 * time.Second
	simRenew = simTTL / 3
	simStep  = 200 * time.Millisecond
)

type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Duration
	shards []leased
	fleet  []*process
	nonces int

	version int // changes with every shard
	moves   int // how often a shard has got another leader than before
	vacancy time.Duration
	atOnce  int // most shards that one process was giving up at a time
}

type leased struct {
	holder *process // nil: vacant
	last   *process // the last holder
	since  time.Duration
	free   time.Duration // when the holder's function has returned; 0: it leads
}

type process struct {
	*planner
	id        string
	nonce     backend.Nonce
	began     time.Duration
	announced time.Duration // when it announced itself last
	dead, cut time.Duration // since when; 0: not
	mute      bool          // announces itself and never bids
	view      view
	version   int // of the view
	decided   time.Duration
	readAt    time.Duration
}

func newWorld(t *testing.T, shards, processes int) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(1, 2)), shards: make([]leased, shards), now: time.Hour}
	for i := range processes {
		w.start(fmt.Sprint("p", i))
	}
	return w
}

// start starts a process. An id that has been used is a restart.
func (w *world) start(id string) *process {
	o, err := Options{}.complete(simTTL)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nonces++
	p := &process{
		planner: newPlanner(id, len(w.shards), o, simRenew),
		id:      id, nonce: backend.Nonce(fmt.Sprint(w.nonces)),
		began: w.now, announced: w.now, view: view{shards: make([]shard, len(w.shards))},
	}
	w.fleet = append(w.fleet, p)
	return p
}

// crash ends a process at once: its leases expire.
func (w *world) crash(p *process) { p.dead = w.now }

// close ends a process in order: its leases are released.
func (w *world) close(p *process) {
	p.dead = w.now
	for i := range w.shards {
		if w.shards[i].holder == p {
			w.vacate(i)
		}
	}
}

func (w *world) vacate(i int) {
	s := &w.shards[i]
	*s = leased{last: s.holder, since: w.now}
	w.version++
}

func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += simStep {
		w.expire()
		for _, n := range w.random.Perm(len(w.fleet)) {
			if p := w.fleet[n]; p.dead == 0 && p.cut == 0 {
				w.step(p)
			}
		}
	}
}

// expire ends the leases of those who do not renew, and of functions that have returned, and measures vacancies.
func (w *world) expire() {
	w.fleet = slices.DeleteFunc(w.fleet, func(p *process) bool { return p.dead > 0 && w.now-p.dead > 3*simTTL })
	giving := map[*process]int{}
	for i := range w.shards {
		switch s := &w.shards[i]; {
		case s.holder == nil:
			w.vacancy = max(w.vacancy, w.now-s.since)
		case s.free > 0 && w.now >= s.free,
			s.holder.dead > 0 && w.now-s.holder.dead >= simTTL,
			s.holder.cut > 0 && w.now-s.holder.cut >= simTTL:
			w.vacate(i)
		case s.free > 0:
			giving[s.holder]++
			w.atOnce = max(w.atOnce, giving[s.holder])
		}
	}
}

// step lets a process see and decide.
func (w *world) step(p *process) {
	if w.now-p.announced >= simTTL {
		p.announced = w.now
	}
	if p.version == w.version && w.now-p.decided < simRenew || w.random.IntN(3) == 0 {
		return // there is no news, or it has not arrived yet
	}
	p.version, p.decided = w.version, w.now
	w.look(p)
	d := p.decide(&p.view)
	for _, i := range d.giveUp {
		w.shards[i].free = w.now + simStep + time.Duration(w.random.Int64N(int64(2*time.Second)))
		w.version++
	}
	for _, i := range d.bids {
		if p.mute {
			break
		}
		if s := &w.shards[i]; s.holder == nil {
			if s.last != p {
				w.moves++
			}
			*s = leased{holder: p, since: w.now}
			w.version++
		}
	}
}

// look updates what a process sees.
func (w *world) look(p *process) {
	p.view.now = w.now - p.began
	for i := range w.shards {
		s, seen := &w.shards[i], shard{known: true}
		seen.running = s.holder == p && s.free > 0
		if s.holder != nil && !seen.running {
			seen.leader, seen.weight = s.holder.id, 1
		}
		if before := &p.view.shards[i]; before.known && before.leader == seen.leader {
			seen.since = before.since
		} else {
			seen.since = p.view.now
		}
		p.view.shards[i] = seen
	}
	vacant := slices.ContainsFunc(p.view.shards, func(s shard) bool { return s.leader == "" })
	if p.view.read && w.now-p.readAt < simTTL && !(vacant && w.now-p.readAt >= simRenew) {
		return
	}
	p.view.read, p.readAt, p.view.announced = true, w.now, p.view.announced[:0]
	for _, m := range w.fleet {
		if w.now-m.announced <= 2*simTTL {
			p.view.announced = append(p.view.announced, announcement{m.id, m.nonce, 1, m.announced - p.began})
		}
	}
}

func (w *world) alive() (list []*process) {
	for _, p := range w.fleet {
		if p.dead == 0 && p.cut == 0 {
			list = append(list, p)
		}
	}
	return list
}

// spread returns the least and the greatest number of shards that a live process leads, and how many are vacant.
func (w *world) spread() (least, most, vacant int) {
	leads := map[*process]int{}
	for i := range w.shards {
		if s := &w.shards[i]; s.holder == nil {
			vacant++
		} else if s.free == 0 {
			leads[s.holder]++
		}
	}
	least = len(w.shards)
	for _, p := range w.alive() {
		least, most = min(least, leads[p]), max(most, leads[p])
	}
	return least, most, vacant
}

// A scenario is what happens to a fleet that is balanced. It returns how many moves no planner could avoid.
type scenario struct {
	name string
	most int           // moves allowed
	gap  time.Duration // longest vacancy allowed
	do   func(w *world)
}

func scenarios(shards, processes int) []scenario {
	share := shards / processes
	each := func(w *world, n int, do func(p *process)) {
		for _, p := range w.alive()[:n] {
			do(p)
		}
	}
	restart := func(next func(id string) string) func(w *world) {
		return func(w *world) {
			each(w, processes, func(p *process) {
				w.close(p)
				w.run(2 * time.Second)
				w.start(next(p.id))
				w.run(3 * time.Second)
			})
		}
	}
	return []scenario{
		{"nothing happens", 0, 0, func(*world) {}},
		{"one comes", share, 2 * time.Second, func(w *world) { w.start("new") }},
		{"a tenth comes", shards / 11, 2 * time.Second, func(w *world) {
			for i := range processes / 10 {
				w.start(fmt.Sprint("new", i))
			}
		}},
		{"one crashes", share, 2 * time.Second, func(w *world) { each(w, 1, w.crash) }},
		{"a third crashes", share * (processes / 3), 5 * time.Second, func(w *world) { each(w, processes/3, w.crash) }},
		{"one closes", share, 2 * time.Second, func(w *world) { each(w, 1, w.close) }},
		{"a third is cut off for a minute", 2*share*(processes/3) + share, 5 * time.Second, func(w *world) {
			off := w.alive()[:processes/3]
			for _, p := range off {
				p.cut = w.now
			}
			w.run(time.Minute)
			for _, p := range off {
				p.cut = 0
			}
		}},
		{"a rolling restart", shards + shards/4, 2 * time.Second, restart(func(id string) string { return id })},
		{"a rolling restart under other ids", shards + shards/4, 5 * time.Second,
			restart(func(id string) string { return id + "-new" })},
		{"one crashes every 20 s for 10 minutes", 4 * share, 2 * time.Second, func(w *world) {
			p := w.alive()[0]
			for range 30 {
				w.crash(p)
				w.run(time.Second)
				p = w.start(p.id)
				w.run(19 * time.Second)
			}
		}},
	}
}

// After each scenario the shares differ by one shard at most, no more shards have moved than the share
// of those who came and went, none was vacant for long, and nobody gave up more than Moves at a time.
func TestSharesAreEvenAndFewShardsMove(t *testing.T) {
	shards, processes := 1000, 100
	if testing.Short() {
		shards, processes = 100, 10
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-40s %6s %6s %8s %8s %7s\n", fmt.Sprintf("%d shards, %d members", shards, processes), "least", "most", "moves", "allowed", "vacant")
	for _, s := range scenarios(shards, processes) {
		w := newWorld(t, shards, processes)
		w.run(30 * time.Second)
		if least, most, vacant := w.spread(); most-least > 1 || vacant > 0 {
			t.Fatalf("at the start the processes lead %d to %d shards, %d are vacant", least, most, vacant)
		}
		w.moves, w.vacancy, w.atOnce = 0, 0, 0
		s.do(w)
		w.run(3 * time.Minute)
		least, most, vacant := w.spread()
		fmt.Fprintf(&table, "%-40s %6d %6d %8d %8d %7v\n", s.name, least, most, w.moves, s.most, w.vacancy)
		switch {
		case most-least > 1 || vacant > 0:
			t.Errorf("%s: the processes lead %d to %d shards, and %d are vacant; want shares that differ by 1, and none vacant", s.name, least, most, vacant)
		case w.moves > s.most:
			t.Errorf("%s: shards have moved %d times, at most %d are allowed", s.name, w.moves, s.most)
		case w.vacancy > s.gap:
			t.Errorf("%s: a shard was vacant for %v, longer than %v", s.name, w.vacancy, s.gap)
		case w.atOnce > 4:
			t.Errorf("%s: a process gave up %d shards at a time, more than Moves", s.name, w.atOnce)
		}
	}
	t.Log(table.String())
}

// Members that announce themselves and never bid leave no shard vacant, and let none go to and fro.
func TestMembersThatNeverBidCostPatience(t *testing.T) {
	moves := 0
	for seed := range uint64(8) {
		w := newWorld(t, 100, 10)
		w.random = rand.New(rand.NewPCG(seed, 2))
		for i := range 5 {
			w.start(fmt.Sprint("mute", i)).mute = true
		}
		w.run(time.Minute)
		if _, _, vacant := w.spread(); vacant > 0 {
			t.Errorf("seed %d: a minute after the start %d of 100 shards are vacant, because a third of the members never bids", seed, vacant)
		}
		for _, p := range w.alive()[:3] {
			w.crash(p)
		}
		w.vacancy = 0
		w.run(time.Minute)
		if _, _, vacant := w.spread(); vacant > 0 || w.vacancy > 2*simTTL+10*time.Second {
			t.Errorf("seed %d: a minute after a crash %d shards are vacant, and one was for %v; want none, for no longer than Patience and 10s", seed, vacant, w.vacancy)
		}
		moves -= w.moves
		w.run(time.Hour)
		moves += w.moves
	}
	if moves > 8*200 {
		t.Errorf("in an hour shards moved %d times because of members that never bid", moves/8)
	}
}

// Whatever has come, gone, crashed or was cut off, in any order: when that is over, all shards are led
// and the shares differ by one at most.
func TestAnyHistoryEndsEven(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	for seed := range uint64(seeds) {
		w := newWorld(t, 100, 10)
		w.random = rand.New(rand.NewPCG(seed, 0))
		for n := range 40 {
			p := w.fleet[w.random.IntN(len(w.fleet))]
			switch alive := len(w.alive()); {
			case alive > 3 && p.dead == 0 && w.random.IntN(3) == 0:
				w.crash(p)
			case alive > 3 && p.dead == 0 && w.random.IntN(3) == 0:
				w.close(p)
			case alive > 3 && p.dead == 0 && w.random.IntN(3) == 0:
				p.cut = w.now
			case p.cut > 0:
				p.cut = 0
			case p.dead > 0 && !slices.ContainsFunc(w.alive(), func(other *process) bool { return other.id == p.id }):
				w.start(p.id)
			default:
				w.start(fmt.Sprint("new", n))
			}
			w.run(time.Duration(w.random.Int64N(int64(simTTL * 2))))
		}
		for _, p := range w.fleet {
			p.cut = 0
		}
		w.run(3 * time.Minute)
		if least, most, vacant := w.spread(); vacant > 0 || most-least > 1 {
			t.Errorf("seed %d: three minutes after the last fault %d processes lead %d to %d shards, and %d are vacant",
				seed, len(w.alive()), least, most, vacant)
		}
	}
}
