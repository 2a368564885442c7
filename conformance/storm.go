package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// errInjected is the error of a call that a wire fails on purpose.
var errInjected = fmt.Errorf("wire: injected failure: %w", backend.ErrUnavailable)

var stormCases = []Case{
	{Rule: "S1", Name: "storms", run: storms,
		Says: "Under random faults in any order, an election never has two leaders, and terms grow. When " +
			"all faults have healed there is exactly one leader."},
}

// storms runs five nodes through hours of random faults. One number determines all
// random choices; a failure prints it.
func storms(t *Trial) {
	seeds, length := 3, t.scaledTime(2*time.Hour)
	if t.Short || !t.Virtual {
		seeds = 1
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		s := &storm{t: t, rnd: rnd, name: fmt.Sprintf("storm%d", seed), terms: map[uint64]bool{}}
		if err := try(func() { s.run(length) }); err != nil {
			fail("storm with seed %d, %v: %w", seed, length, err)
		}
	}
}

// A storm is one run of nodes under random faults.
type storm struct {
	t       *Trial
	rnd     *rand.Rand
	name    string // of the election
	members [5]*participant
	healed  int             // how often all faults were healed
	terms   map[uint64]bool // of the leaders after that
}

func (s *storm) run(length time.Duration) {
	for i := range s.members {
		s.start(i)
	}
	for end := s.t.now() + length; s.t.now() < end; {
		s.injectFault()
		s.t.sleep(time.Duration(s.rnd.Int64N(int64(s.t.TTL))))
		if s.rnd.IntN(20) != 0 {
			continue
		}
		s.checkHealed()
		for _, n := range s.t.nodes {
			if n.dead.Load() {
				n.closeQuietly() // it would go on calling
			}
		}
	}
	s.finish()
}

// start starts a node in place i.
func (s *storm) start(i int) { s.members[i] = s.t.candidate(fmt.Sprintf("c%d", i), s.name, nil) }

// injectFault makes one random change at one random member.
func (s *storm) injectFault() {
	i := s.rnd.IntN(len(s.members))
	p := s.members[i]
	switch s.rnd.IntN(12) {
	case 0, 1:
		p.node.wire.Cut(true)
	case 2, 3, 4:
		p.node.wire.Decide(s.randomFates())
	case 5, 6:
		p.node.wire.Decide(nil)
	case 7:
		s.operate(p.Resign)
	case 8:
		p.Pause()
	case 9:
		s.operate(func(ctx context.Context) error {
			return p.Nominate(ctx, s.members[s.rnd.IntN(len(s.members))].node.ID())
		})
	case 10:
		s.operate(p.Depose)
	case 11: // kill -9, and start again
		p.node.crash()
		s.start(i)
	}
	if s.rnd.IntN(4) == 0 {
		p.Resume()
	}
}

// operate makes one call of an operator, which may fail.
func (s *storm) operate(do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.t.callTimeout())
	defer cancel()
	do(ctx)
}

// heal ends all faults.
func (s *storm) heal() {
	for _, p := range s.members {
		p.node.wire.Decide(nil)
		p.Resume()
	}
}

// checkHealed ends all faults and expects a leader in time.
func (s *storm) checkHealed() {
	s.heal()
	s.healed++
	s.t.waitForLeader(3*s.t.TTL+s.t.takeoverBound(), s.members[:]...)
	for _, p := range s.members {
		if l := p.Leadership(); l != nil {
			s.terms[l.Term] = true
		}
	}
}

// finish ends all faults, expects exactly one leader and closes the members.
func (s *storm) finish() {
	t := s.t
	s.heal()
	t.sleep(4 * t.TTL)
	t.waitForOneLeader(s.members[:]...)
	require(expect(len(s.terms) > 1 || s.healed <= 3, len(s.terms), "more than one leadership"))

	for _, p := range s.members {
		p.end(4 * t.TTL)
	}
}

// randomFates returns the fates of calls. Each kind of fault has a chance of its own.
func (s *storm) randomFates() func(Call) Fate {
	kinds := []func(d time.Duration) Fate{
		func(time.Duration) Fate { return Fate{Lost: true} },
		func(time.Duration) Fate { return Fate{AnswerLost: true} },
		func(time.Duration) Fate { return Fate{Err: errInjected} },
		func(d time.Duration) Fate { return Fate{Before: d / 8, After: d / 8} },
		func(d time.Duration) Fate { return Fate{Before: d * 2} },
		func(d time.Duration) Fate { return Fate{Again: d * 2} },
	}
	chances := make([]float64, len(kinds))
	for i := range chances {
		chances[i] = s.rnd.Float64() * s.rnd.Float64() / 4
	}

	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(s.rnd.Uint64(), 2))
	return func(Call) Fate {
		mu.Lock()
		defer mu.Unlock()
		roll := rnd.Float64()
		for i, chance := range chances {
			if roll -= chance; roll <= 0 {
				return kinds[i](time.Duration(rnd.Int64N(int64(s.t.TTL))))
			}
		}
		return Fate{}
	}
}
