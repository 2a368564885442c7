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
var errOut = fmt.Errorf("wire: out: %w", backend.ErrUnavailable)

var stormCases = []Case{
	{Rule: "S1", Name: "storms", Run: storms,
		Says: "Whatever faults come, in whatever order: never two leaders, terms grow, watchers are told the truth, and when all has healed there is exactly one leader."},
}

// storms lets five nodes live through hours of random faults. Everything random
// follows from one number, which a failure prints.
func storms(t *Trial) error {
	seeds, length := 3, t.long(2*time.Hour)
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
type weather struct {
	mu  chan *rand.Rand // holds the one source, for one at a time
	t   *Trial
	bad [6]float64 // chances of: lost, answer lost, error, slow, late, twice
}

func (w *weather) fate(c Call) Fate {
	rnd := <-w.mu
	defer func() { w.mu <- rnd }()
	roll := rnd.Float64()
	for i, chance := range w.bad {
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
			return Fate{Err: errOut}
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
	seats := make([]*seat, n)
	start := func(i int) error {
		s, err := t.seat(fmt.Sprintf("c%d", i), name, nil)
		if err != nil {
			return err
		}
		seats[i] = s
		return s.lead()
	}
	for i := range seats {
		if err := start(i); err != nil {
			return fail(err)
		}
	}
	ask := func(do func(context.Context) error) { // an operator, who takes no for an answer
		ctx, cancel := context.WithTimeout(context.Background(), t.callTimeout())
		defer cancel()
		do(ctx)
	}
	leaderships, healed := map[uint64]bool{}, 0
	for end := t.now() + length; t.now() < end; {
		i := rnd.IntN(n)
		s := seats[i]
		switch rnd.IntN(12) {
		case 0, 1:
			s.node.wire.Cut(true)
		case 2, 3, 4:
			w := &weather{mu: make(chan *rand.Rand, 1), t: t}
			w.mu <- rand.New(rand.NewPCG(rnd.Uint64(), 2))
			for k := range w.bad {
				w.bad[k] = rnd.Float64() * rnd.Float64() / 4
			}
			s.node.wire.Decide(w.fate)
		case 5, 6:
			s.node.wire.Decide(nil)
		case 7:
			ask(s.Resign)
		case 8:
			s.Pause()
		case 9:
			ask(func(ctx context.Context) error { return s.Nominate(ctx, seats[rnd.IntN(n)].node.ID()) })
		case 10:
			ask(s.Depose)
		case 11: // kill -9, and start again
			s.node.dies()
			if err := start(i); err != nil {
				return fail(err)
			}
		}
		if rnd.IntN(4) == 0 {
			s.Resume()
		}
		t.sleep(time.Duration(rnd.Int64N(int64(t.TTL))))
		if rnd.IntN(20) != 0 {
			continue
		}
		for _, s := range seats { // fine weather
			s.node.wire.Decide(nil)
			s.Resume()
		}
		healed++
		if _, _, err := t.elected(3*t.TTL+t.bound(), seats...); err != nil {
			return fail(fmt.Errorf("after healing number %d, at %v: L3: %w", healed, t.now(), err))
		}
		for _, s := range seats {
			if l := s.Leadership(); l != nil {
				leaderships[l.Term] = true
			}
		}
		t.prune()
	}
	for _, s := range seats {
		s.node.wire.Decide(nil)
		s.Resume()
	}
	t.sleep(4 * t.TTL)
	errs := []error{t.one(seats...)}
	for _, s := range seats {
		s.left = true
	}
	if healed > 3 {
		errs = append(errs, must(len(leaderships) > 1, "faults that bite: more than one leadership seen in fine weather", len(leaderships)))
	}
	for _, s := range seats {
		errs = append(errs, s.node.close(4*t.TTL))
	}
	t.mu.Lock()
	errs = append(errs, t.broken...)
	t.broken = nil
	t.mu.Unlock()
	return fail(errors.Join(errs...))
}

// prune ends the managers of nodes that are dead, which would go on calling.
func (t *Trial) prune() {
	for _, n := range t.nodes {
		if n.dead.Load() && !n.closed.Load() {
			n.end()
			t.judge.forget(n)
		}
	}
	t.nodes = slices.DeleteFunc(t.nodes, func(n *node) bool { return n.closed.Load() })
}
