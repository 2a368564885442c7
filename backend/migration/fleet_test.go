package migration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A fleet is a number of processes that elect one leader while they migrate from one store to
// another. It checks that there are never two leaders.
type fleet struct {
	t         testing.TB
	rnd       *rand.Rand
	pair      *pair
	name      string // of the election
	nodes     []*node
	observers []func()
	began     time.Time
	next      int // the number of the next process

	term        uint64 // the greatest in which a process has led
	leader      *node  // the last leader
	leaderships map[migration.Stage]int
	violations  []string

	mu    sync.Mutex
	lines []string
}

type node struct {
	*election.Manager
	*election.Election
	stage migration.Stage
	id    string
	wires []*conformance.Wire
}

func newFleet(t testing.TB, seed uint64) *fleet {
	rnd := rand.New(rand.NewPCG(seed, 1))
	skew := time.Duration(rnd.Int64N(int64(time.Minute))) - 30*time.Second
	return &fleet{t: t, rnd: rnd, pair: newPair(seed%2 == 1, skew), name: "billing", began: time.Now(), leaderships: map[migration.Stage]int{}}
}

// start starts a process at a stage. The empty stage is a program that elects by the old store
// and knows nothing of migrations.
func (f *fleet) start(stage migration.Stage, change func(*migration.Options)) *node {
	old, wire := conformance.Wrap(f.pair.old.Backend()), conformance.Wrap(f.pair.new.Backend())
	n := &node{stage: stage, id: fmt.Sprintf("%s%d", stage, f.next), wires: []*conformance.Wire{old, wire}}
	f.next++
	b := backend.Backend(old)
	if stage != "" {
		o := migration.Options{From: old, To: wire, ToName: "new", Stage: stage}
		if change != nil {
			change(&o)
		}
		b = road(f.t, o)
	}
	return f.launch(n, b)
}

func (f *fleet) launch(n *node, b backend.Backend) *node {
	m, err := election.New(b, election.Options{ID: n.id})
	testbed.NoError(f.t, err)
	if n.Election, err = m.Join(f.name); err != nil {
		f.t.Fatal(err)
	}
	n.Manager = m
	n.Watch(func(ev election.Event) { f.log("%s receives %v", n.id, ev) })
	testbed.NoError(f.t, n.Lead(nil))
	f.nodes = append(f.nodes, n)
	f.log("%s starts", n.id)
	return n
}

// observer starts a process that observes at a stage, until the fleet ends.
func (f *fleet) observer(t *testing.T, stage migration.Stage) *election.Election {
	e, stop := observeAs(t, f.pair.open(t, stage), election.Options{ID: "observer at " + string(stage)})
	f.observers = append(f.observers, stop)
	return e
}

func (n *node) Watch(callback func(election.Event)) { n.Election.Watch(callback) }

// kill ends a process as kill -9 does. Its calls no longer reach the stores, and what it believes does not count.
func (f *fleet) kill(n *node) {
	f.log("kill -9 %s", n.id)
	f.remove(n)
	for _, w := range n.wires {
		w.Cut(true)
	}
	f.close(n, 0)
}

func (f *fleet) stop(n *node) {
	f.log("%s is asked to end", n.id)
	f.close(n, 5*time.Second)
	f.remove(n)
}

func (f *fleet) close(n *node, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n.Close(ctx)
}

func (f *fleet) remove(n *node) {
	for i, x := range f.nodes {
		if x == n {
			f.nodes = append(f.nodes[:i:i], f.nodes[i+1:]...)
		}
	}
}

// replaceAll replaces the three processes, the oldest one first, while calls are disturbed.
func (f *fleet) replaceAll(start func()) {
	for range 3 {
		f.run(time.Duration(f.rnd.Int64N(int64(30 * time.Second))))
		if f.rnd.IntN(2) == 0 {
			f.harm()
			f.run(time.Duration(f.rnd.Int64N(int64(10 * time.Second))))
		}
		if n := f.nodes[0]; f.rnd.IntN(2) == 0 {
			f.stop(n)
		} else {
			f.kill(n)
		}
		start()
	}
	f.run(20 * time.Second) // calls are no longer disturbed
}

// run lets time pass, and keeps asking all processes whether they lead.
func (f *fleet) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // virtual
		f.ask()
	}
}

func (f *fleet) ask() {
	var leader *node
	for _, n := range f.nodes {
		l := n.Leadership()
		if l == nil {
			continue
		}
		if leader != nil {
			f.violations = append(f.violations, fmt.Sprintf("S1: %s and %s lead at %v", leader.id, n.id, time.Since(f.began)))
		}
		leader = n
		if f.leader != n || l.Term > f.term {
			if l.Term <= f.term {
				f.violations = append(f.violations, fmt.Sprintf("S4: %s leads in term %d after %d at %v", n.id, l.Term, f.term, time.Since(f.began)))
			}
			f.log("%s leads in term %d", n.id, l.Term)
			f.leaderships[n.stage]++
			f.leader, f.term = n, l.Term
			if o, w := f.pair.terms(f.name); n.stage == migration.Both && (o != l.Term || w != l.Term) {
				f.violations = append(f.violations, fmt.Sprintf("%s leads in term %d, which the stores have as %d and %d", n.id, l.Term, o, w))
			}
		}
	}
}

func (p *pair) terms(election string) (old, new uint64) {
	of := func(b backend.Backend) uint64 {
		defer b.Close()
		list, err := b.List(context.Background(), election, 1)
		if err != nil || len(list) == 0 {
			return 0
		}
		return list[0].Term
	}
	return of(p.old.Backend()), of(p.new.Backend())
}

func (f *fleet) log(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf("%10.3fs ", time.Since(f.began).Seconds())+fmt.Sprintf(format, args...))
}

// led lets time pass until a process leads, and returns that process.
func (f *fleet) led(limit time.Duration) *node {
	for end := time.Now().Add(limit); time.Now().Before(end); f.run(20 * time.Millisecond) {
		for _, n := range f.nodes {
			if n.Leading() {
				return n
			}
		}
	}
	return nil
}

// harm disturbs the calls of one process to one store, for a while.
func (f *fleet) harm() {
	n := f.nodes[f.rnd.IntN(len(f.nodes))]
	w := n.wires[f.rnd.IntN(2)]
	d := time.Duration(f.rnd.Int64N(int64(15 * time.Second)))
	kind := f.rnd.IntN(4)
	late := time.Duration(f.rnd.Int64N(int64(12 * time.Second)))
	f.log("for %v calls of %s are disturbed (kind %d)", d, n.id, kind)
	odds := rand.New(rand.NewPCG(f.rnd.Uint64(), 2))
	var mu sync.Mutex // calls run at the same time
	w.Decide(func(conformance.Call) conformance.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch kind {
		case 0:
			return conformance.Fate{Lost: true}
		case 1:
			return conformance.Fate{AnswerLost: odds.IntN(2) == 0}
		case 2:
			return conformance.Fate{Before: time.Duration(odds.Int64N(int64(late) + 1))}
		default:
			return conformance.Fate{Again: time.Duration(odds.Int64N(int64(late) + 1)), After: time.Duration(odds.Int64N(int64(time.Second)))}
		}
	})
	time.AfterFunc(d, func() { w.Decide(nil) })
}

// end ends all processes, and fails the test if there was a violation.
func (f *fleet) end(t testing.TB) {
	for len(f.nodes) > 0 {
		f.stop(f.nodes[0])
	}
	for _, stop := range f.observers {
		stop()
	}
	for _, line := range f.violations[:min(len(f.violations), 5)] {
		t.Error(line)
	}
	if t.Failed() {
		for _, line := range f.lines[max(0, len(f.lines)-120):] {
			t.Log(line)
		}
	}
}
