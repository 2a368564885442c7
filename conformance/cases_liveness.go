package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var livenessCases = []Case{
	{Rule: "L1", Name: "a crash is taken over in time", Run: liveCrash,
		Says: "After a crash there is a new leader within TTL + Guarantees.Takeover + one reading."},
	{Rule: "L2", Name: "a resignation hands over", Run: liveResign,
		Says: "After an orderly release the next leader is there within one push or one reading."},
	{Rule: "L3", Name: "one leader after the last fault heals", Run: liveHeal,
		Says: "Within a bound after the last fault heals, every election with a live candidate has exactly one leader."},
	{Rule: "L4", Name: "no change without a fault", Run: liveSticky,
		Says: "No change of leader without a fault, an operator's request or a resignation."},
	{Rule: "L4", Name: "no change through a short outage in which nothing arrives", Run: liveOutage(Fate{Lost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change through a short outage in which nothing is answered", Run: liveOutage(Fate{AnswerLost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change through a short outage in which all calls fail", Run: liveOutage(Fate{Err: errOut}), Says: shortOutage},
	{Rule: "L5", Name: "a candidate that was cut off is one again", Run: liveZombie,
		Says: "Each candidate campaigns again once its line is mended."},
	{Rule: "L5", Name: "an ear that went deaf is opened again", Run: liveDeaf, skip: pushed,
		Says: "A Listen whose answer was lost is not waited for for ever: once the line is mended, news is heard again."},
	{Rule: "L6", Name: "no herd at a failover", Run: liveHerd,
		Says: "Operations per failover are at most a·n + b, however many candidates wait."},
	{Rule: "L7", Name: "closing ends while the store hangs", Run: liveCloseHangs,
		Says: "Close returns within its context even when the store hangs, says what was not released, and leaves no goroutine."},
	{Rule: "L7", Name: "closing in order frees at once", Run: liveClose,
		Says: "Close steps down in order: the next leader need not wait for the lease to run out."},
}

const shortOutage = "No change of leader through store outages shorter than TTL − clock margin − retry."

func liveCrash(t *Trial) error {
	phases := 6
	if t.Short || !t.Virtual {
		phases = 3
	}
	for i := range phases {
		name := fmt.Sprintf("jobs%d", i)
		leader, others, err := t.led(3, name, nil)
		if err != nil {
			return err
		}
		t.sleep(t.TTL + t.renewEvery()*time.Duration(i)/time.Duration(phases)) // at different moments between two renewals
		leader.node.dies()
		limit := t.TTL + t.Takeover + t.TTL/20
		if t.Expiry != backend.ByChallengers {
			limit += t.renewEvery()
		}
		took, err := t.after(limit, "a new leader after a crash", func() bool { return leading(others) != nil })
		if err != nil {
			return err
		}
		if t.Expiry == backend.ByChallengers {
			if err := must(took >= t.TTL-t.renewEvery()-t.callTimeout()-t.Late, "a takeover not long before the TTL has passed", took); err != nil {
				return err
			}
		}
		for _, s := range others {
			s.left = true
			if err := s.node.close(2 * t.TTL); err != nil {
				return err
			}
		}
	}
	return nil
}

func liveResign(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	seats := []*seat{a, others[0]}
	for i := range 5 {
		t.sleep(t.TTL*2 + t.renewEvery()*time.Duration(i)/5)
		leader, _, err := t.elected(0, seats...)
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		ctx, cancel := t.ctx()
		err = leader.Resign(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("resign: expected nil, got %w", err)
		}
		if _, err := t.after(t.handover(), "the next leader after a resignation", func() bool { return leading(seats) != nil }); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if leader.Leading() {
			return fmt.Errorf("round %d: expected the other candidate to lead after %s resigned, got itself again", i, leader.node.key)
		}
	}
	return nil
}

func liveHeal(t *Trial) error {
	seats, err := t.cluster(3, "jobs", nil)
	if err != nil {
		return err
	}
	faults := []Fate{{Lost: true}, {AnswerLost: true}, {Err: errOut}, {Before: t.TTL / 2}, {After: t.TTL / 2}}
	for i, f := range faults {
		for j, s := range seats {
			if (i+j)%3 != 0 || i == 0 {
				s.node.wire.Decide(func(Call) Fate { return f })
			}
		}
		t.sleep(2*t.TTL + t.TTL*time.Duration(i)/7)
		for _, s := range seats {
			s.node.wire.Decide(nil)
		}
		if _, _, err := t.elected(t.bound(), seats...); err != nil {
			return fmt.Errorf("after fault %d had healed: %w", i, err)
		}
		t.sleep(t.renewEvery() + t.TTL/10)
		if err := t.one(seats...); err != nil {
			return fmt.Errorf("after fault %d had healed: %w", i, err)
		}
		for _, s := range seats {
			if err := t.until(t.TTL, s.node.key+" to know the leader", func() bool { _, _, ok := s.Leader(); return ok }); err != nil {
				return fmt.Errorf("%w: %v", err, s.Current())
			}
		}
	}
	return nil
}

func liveSticky(t *Trial) error {
	leader, others, err := t.led(3, "jobs", nil)
	if err != nil {
		return err
	}
	was, err := t.leadership(t.bound(), leader)
	if err != nil {
		return err
	}
	term := was.Term
	t.judge.pace.Store(int64(t.TTL)) // in a day without events there is little to sample
	t.sleep(t.long(24 * time.Hour))
	l := leader.Leadership()
	if l == nil || l.Term != term {
		return fmt.Errorf("expected %s to lead in term %d all the time, got %v", leader.node.key, term, leader.events())
	}
	for _, s := range append(others, leader) {
		n := 0
		for _, e := range s.events() {
			switch {
			case e.Kind == election.Elected:
				n++
			case n > 0 && e.Kind != election.Notice: // nobody leads, or nobody knows
				n = -1
			}
		}
		if n != 1 {
			return fmt.Errorf("%s: expected to be told of one leadership that lasts, got %v", s.node.key, s.events())
		}
	}
	return nil
}

func liveOutage(fate Fate) func(*Trial) error {
	return func(t *Trial) error {
		leader, others, err := t.led(2, "jobs", nil)
		if err != nil {
			return err
		}
		was, err := t.leadership(t.bound(), leader)
		if err != nil {
			return err
		}
		term := was.Term
		// At worst the outage begins just before a renewal is due. A call that hangs
		// must have timed out before the one that succeeds is sent.
		length := t.TTL - t.clockMargin() - t.renewEvery() - t.TTL/20
		if fate.Err == nil {
			length -= t.callTimeout()
		}
		if !t.Virtual { // the other half is for a busy machine
			t.spare = length / 2
			length -= t.spare
		}
		for j := range 5 {
			t.sleep(t.TTL + t.renewEvery()*time.Duration(j)/5)
			began := time.Now()
			for _, s := range append(others, leader) {
				s.node.wire.Decide(func(Call) Fate { return fate })
			}
			t.sleep(length)
			for _, s := range append(others, leader) {
				s.node.wire.Decide(nil)
			}
			t.overran = max(t.overran, time.Since(began)-length)
			t.sleep(t.TTL)
			if l := leader.Leadership(); l == nil || l.Term != term {
				return fmt.Errorf("outage of %v, number %d: expected the leadership of term %d to go on, got %v", length, j, term, leader.events())
			}
		}
		return nil
	}
}

func liveZombie(t *Trial) error {
	leader, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	b.node.wire.Cut(true)
	t.sleep(5 * t.TTL)
	b.node.wire.Cut(false)
	t.sleep(t.TTL)
	leader.node.dies()
	if _, _, err := t.elected(t.bound(), b); err != nil {
		return fmt.Errorf("a follower that was cut off for five TTLs: %w", err)
	}
	return nil
}

func liveDeaf(t *Trial) error {
	leader, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	b.node.wire.Decide(func(c Call) Fate { return Fate{AnswerLost: c.Method == "Listen"} })
	t.sleep(t.TTL)
	b.node.wire.Decide(nil)
	t.sleep(3 * t.TTL)
	leader.Pause()
	if _, err := t.after(t.handover(), "the next leader, three TTLs after the line was mended", b.Leading); err != nil {
		return fmt.Errorf("%w (a Listen that was under way when the line failed never ends)", err)
	}
	return nil
}

func liveHerd(t *Trial) error {
	sizes := []int{5, 20}
	if !t.Virtual {
		sizes = []int{5}
	}
	for _, n := range sizes {
		name := fmt.Sprintf("jobs%d", n)
		var seats []*seat
		for i := range n {
			s, err := t.seat(fmt.Sprintf("c%02d", i), name, nil)
			if err != nil {
				return err
			}
			if err := s.lead(); err != nil {
				return err
			}
			seats = append(seats, s)
		}
		leader, others, err := t.elected(2*t.bound(), seats...)
		if err != nil {
			return err
		}
		t.sleep(2 * t.TTL)
		count := func(methods ...string) (sum int) {
			for _, s := range others {
				sum += s.node.wire.Count(methods...)
			}
			return sum
		}
		failed := func() (sum int) { // and so made again
			for _, s := range others {
				sum += s.node.wire.failures()["Acquire"]
			}
			return sum
		}
		calls, bids, again := count(), count("Acquire"), failed()
		leader.node.dies()
		if _, _, err := t.elected(t.bound(), others...); err != nil {
			return err
		}
		t.sleep(t.TTL)
		calls, bids, again = count()-calls, count("Acquire")-bids, failed()-again
		const a, b = 25, 10
		if err := errors.Join(must(calls <= a*n+b, fmt.Sprintf("at most %d·%d+%d calls from a crash to one TTL after the next leader", a, n, b), calls),
			must(bids <= 2*n+again, fmt.Sprintf("at most %d bids", 2*n+again), bids)); err != nil {
			return err
		}
		for _, s := range others {
			s.left = true
			s.Pause()
		}
		for _, s := range others {
			if err := s.node.close(2 * t.TTL); err != nil {
				return err
			}
		}
	}
	return nil
}

func liveCloseHangs(t *Trial) error {
	goroutines := runtime.NumGoroutine()
	n, err := t.node("a", nil)
	if err != nil {
		return err
	}
	var seats []*seat
	for i := range 3 {
		s, err := n.join(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		if err := s.lead(); err != nil {
			return err
		}
		seats = append(seats, s)
	}
	if err := t.until(2*t.bound(), "all three to lead", func() bool { return seats[0].Leading() && seats[1].Leading() && seats[2].Leading() }); err != nil {
		return err
	}
	n.wire.Cut(true)
	for _, s := range seats {
		s.left = true
	}
	limit := t.TTL / 2
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := t.moment()
	n.closed.Store(true)
	err = n.Close(ctx)
	took := t.since(began)
	if err := errors.Join(must(err != nil, "an error that says what was not released", err),
		must(took <= limit+t.TTL/20+t.Late, fmt.Sprintf("Close to return within %v", limit), took)); err != nil {
		return err
	}
	for _, s := range seats {
		if err := must(!s.Leading(), "nobody to lead here after Close", s.Name()); err != nil {
			return err
		}
	}
	if t.Virtual || t.Parallel {
		return nil // in a bubble what is left behind makes it burst
	}
	return t.until(t.TTL, fmt.Sprintf("no more than the %d goroutines of before", goroutines+2), func() bool { return runtime.NumGoroutine() <= goroutines+2 })
}

func liveClose(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	t.sleep(t.TTL)
	a.left = true
	if err := a.node.close(t.TTL); err != nil {
		return err
	}
	if _, err := t.after(t.handover(), "the next leader after Close", others[0].Leading); err != nil {
		return err
	}
	ctx, cancel := t.ctx()
	defer cancel()
	if err := a.node.Close(ctx); !errors.Is(err, backend.ErrClosed) {
		return fmt.Errorf("second Close: expected ErrClosed, got %v", err)
	}
	if _, err := a.node.Join("other"); !errors.Is(err, backend.ErrClosed) {
		return fmt.Errorf("a Join after Close: expected ErrClosed, got %v", err)
	}
	return nil
}
