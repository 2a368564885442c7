package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// errOut is what a wire says when it refuses to carry a call.
var errInjected = fmt.Errorf("wire: out: %w", backend.ErrUnavailable)

var stormCases = []Case{
	{Rule: "S1", Name: "storms", Run: storms,
		Says: "Whatever faults come, in whatever order: never two leaders, terms grow, watchers are told the truth, and when all has healed there is exactly one leader."},
}

// storms lets five nodes live through hours of random faults. Everything random
// follows from one number, which a failure prints.
func storms(t *Trial) error {
	seeds, length := 3, t.scaledTime(2*time.Hour)
	if t.Short || !t.Virtual {
		seeds = 1
	}
	for seed := range seeds {
		if err := t.storm(uint64(seed), 5, length); err != nil {
			return err
		}
	}
	return nil
}

// Storm is a case of its own for those who have more hours to spend: n nodes and
// random faults for a time, all chosen by one number.
func Storm(seed uint64, n int, length time.Duration) Case {
	return Case{Rule: "S1", Name: fmt.Sprintf("storm %d", seed), Says: stormCases[0].Says,
		Run: func(t *Trial) error { return t.storm(seed, n, length) }}
}

// A weather is what the lines are like for a while. Each call draws its fate.
type faultMix struct {
	random  chan *rand.Rand // holds the one source, for one at a time
	t       *Trial
	chances [6]float64 // chances of: lost, answer lost, error, slow, late, twice
}

func (w *faultMix) decide(c Call) Fate {
	rnd := <-w.random
	defer func() { w.random <- rnd }()
	roll := rnd.Float64()
	for i, chance := range w.chances {
		if roll -= chance; roll > 0 {
			continue
		}
		d := time.Duration(rnd.Int64N(int64(w.t.TTL)))
		switch i {
		case 0:
			return Fate{Lost: true}
		case 1:
			return Fate{AnswerLost: true}
		case 2:
			return Fate{Err: errInjected}
		case 3:
			return Fate{Before: d / 8, After: d / 8}
		case 4:
			return Fate{Before: d * 2}
		case 5:
			return Fate{Again: d * 2}
		}
	}
	return Fate{}
}

func (t *Trial) storm(seed uint64, n int, length time.Duration) error {
	fail := func(err error) error {
		if err != nil {
			return fmt.Errorf("storm with seed %d, %d nodes, %v: %w", seed, n, length, err)
		}
		return nil
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	name := fmt.Sprintf("storm%d", seed)
	members := make([]*participant, n)
	start := func(i int) error {
		p, err := t.participant(fmt.Sprintf("c%d", i), name, nil)
		if err != nil {
			return err
		}
		members[i] = p
		return p.lead()
	}
	for i := range members {
		if err := start(i); err != nil {
			return fail(err)
		}
	}
	tryRequest := func(do func(context.Context) error) { // an operator, who takes no for an answer
		ctx, cancel := context.WithTimeout(context.Background(), t.callTimeout())
		defer cancel()
		do(ctx)
	}
	leaderships, healed := map[uint64]bool{}, 0
	for end := t.now() + length; t.now() < end; {
		i := rnd.IntN(n)
		p := members[i]
		switch rnd.IntN(12) {
		case 0, 1:
			p.node.wire.Cut(true)
		case 2, 3, 4:
			w := &faultMix{random: make(chan *rand.Rand, 1), t: t}
			w.random <- rand.New(rand.NewPCG(rnd.Uint64(), 2))
			for k := range w.chances {
				w.chances[k] = rnd.Float64() * rnd.Float64() / 4
			}
			p.node.wire.Decide(w.decide)
		case 5, 6:
			p.node.wire.Decide(nil)
		case 7:
			tryRequest(p.Resign)
		case 8:
			p.Pause()
		case 9:
			tryRequest(func(ctx context.Context) error { return p.Nominate(ctx, members[rnd.IntN(n)].node.ID()) })
		case 10:
			tryRequest(p.Depose)
		case 11: // kill -9, and start again
			p.node.crash()
			if err := start(i); err != nil {
				return fail(err)
			}
		}
		if rnd.IntN(4) == 0 {
			p.Resume()
		}
		t.sleep(time.Duration(rnd.Int64N(int64(t.TTL))))
		if rnd.IntN(20) != 0 {
			continue
		}
		for _, p := range members { // fine weather
			p.node.wire.Decide(nil)
			p.Resume()
		}
		healed++
		if _, _, err := t.waitForLeader(3*t.TTL+t.takeoverBound(), members...); err != nil {
			return fail(fmt.Errorf("after healing number %d, at %v: L3: %w", healed, t.now(), err))
		}
		for _, p := range members {
			if l := p.Leadership(); l != nil {
				leaderships[l.Term] = true
			}
		}
		t.closeDeadNodes()
	}
	for _, p := range members {
		p.node.wire.Decide(nil)
		p.Resume()
	}
	t.sleep(4 * t.TTL)
	errs := []error{t.waitForOneLeader(members...)}
	for _, p := range members {
		p.watcherEnded = true
	}
	if healed > 3 {
		errs = append(errs, expect(len(leaderships) > 1, "faults that bite: more than one leadership seen in fine weather", len(leaderships)))
	}
	for _, p := range members {
		errs = append(errs, p.node.close(4*t.TTL))
	}
	t.mu.Lock()
	errs = append(errs, t.errs...)
	t.errs = nil
	t.mu.Unlock()
	return fail(errors.Join(errs...))
}

// prune ends the managers of nodes that are dead, which would go on calling.
func (t *Trial) closeDeadNodes() {
	for _, n := range t.nodes {
		if n.dead.Load() && !n.closed.Load() {
			n.closeQuietly()
			t.checker.removeNode(n)
		}
	}
	t.nodes = slices.DeleteFunc(t.nodes, func(n *node) bool { return n.closed.Load() })
}
