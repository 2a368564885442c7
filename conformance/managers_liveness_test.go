package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

var outageCases = []Case{
	{Rule: "L3", Name: "one leader after the last fault heals", Run: liveHeal,
		Says: "Within a bound after the last fault has healed, every election with a live candidate has exactly one leader."},
	{Rule: "L4", Name: "no change in a short outage with lost requests", Run: liveOutage(Fate{Lost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change in a short outage with lost answers", Run: liveOutage(Fate{AnswerLost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change in a short outage with failing calls", Run: liveOutage(Fate{Err: errInjected}), Says: shortOutage},
	{Rule: "L5", Name: "a reconnected candidate campaigns again", Run: liveRejoin,
		Says: "A candidate that was cut off campaigns again once it can reach the store."},
	{Rule: "L5", Name: "a Listen whose answer was lost is repeated", Run: liveListenAgain, skip: needsReliableListen,
		Says: "A manager does not wait forever for a Listen whose answer was lost. Once it can reach the store, it receives changes again."},
	{Rule: "L6", Name: "no herd of calls at a failover", Run: liveCallsAtFailover,
		Says: "A failover with n candidates takes at most a·n + b calls."},
	{Rule: "L7", Name: "Close ends while the store hangs", Run: liveCloseHangs,
		Says: "Close returns within its context even if the store hangs. Its error names the leases that were not released, and it leaves no goroutine behind."},
	{Rule: "L7", Name: "Close releases the lease at once", Run: liveClose,
		Says: "Close steps down and releases the lease, so the next leader does not wait for the lease to expire."},
}

const shortOutage = "The leader does not change in an outage of the store shorter than TTL − clock margin − retry."

func liveOutage(fate Fate) func(*Trial) error {
	return func(t *Trial) error {
		leader, others, err := t.startWithLeader(2, "jobs", nil)
		if err != nil {
			return err
		}
		first, err := t.waitForLeadership(t.takeoverBound(), leader)
		if err != nil {
			return err
		}
		term := first.Term
		// At worst the outage begins just before a renewal is due. A call that hangs must
		// time out before the manager sends the next one.
		length := t.TTL - t.clockMargin() - t.renewEvery() - t.TTL/20
		if fate.Err == nil {
			length -= t.callTimeout()
		}
		for j := range 5 {
			t.sleep(t.TTL + t.renewEvery()*time.Duration(j)/5)
			for _, p := range append(others, leader) {
				p.node.wire.Decide(func(Call) Fate { return fate })
			}
			t.sleep(length)
			for _, p := range append(others, leader) {
				p.node.wire.Decide(nil)
			}
			t.sleep(t.TTL)
			if l := leader.Leadership(); l == nil || l.Term != term {
				return fmt.Errorf("outage of %v, number %d: expected the leadership of term %d to continue, got %v", length, j, term, leader.events())
			}
		}
		return nil
	}
}

func liveRejoin(t *Trial) error {
	leader, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	b.node.wire.Cut(true)
	t.sleep(5 * t.TTL)
	b.node.wire.Cut(false)
	t.sleep(t.TTL)
	leader.node.crash()
	if _, _, err := t.waitForLeader(t.takeoverBound(), b); err != nil {
		return fmt.Errorf("a follower that was cut off for five TTLs: %w", err)
	}
	return nil
}

func liveListenAgain(t *Trial) error {
	leader, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	b.node.wire.Decide(func(c Call) Fate { return Fate{AnswerLost: c.Method == "Listen"} })
	t.sleep(t.TTL)
	b.node.wire.Decide(nil)
	t.sleep(3 * t.TTL)
	leader.Pause()
	if _, err := t.waitTime(t.handoverBound(), "the next leader, three TTLs after the follower could reach the store again", b.Leading); err != nil {
		return fmt.Errorf("%w (a Listen in flight during the failure never ends)", err)
	}
	return nil
}

func liveCallsAtFailover(t *Trial) error {
	for _, n := range []int{5, 20} {
		name := fmt.Sprintf("jobs%d", n)
		var members []*participant
		for i := range n {
			p, err := t.participant(fmt.Sprintf("c%02d", i), name, nil)
			if err != nil {
				return err
			}
			if err := p.lead(); err != nil {
				return err
			}
			members = append(members, p)
		}
		leader, others, err := t.waitForLeader(2*t.takeoverBound(), members...)
		if err != nil {
			return err
		}
		t.sleep(2 * t.TTL)
		count := func(methods ...string) (sum int) {
			for _, p := range others {
				sum += p.node.wire.Count(methods...)
			}
			return sum
		}
		calls, bids := count(), count("Acquire")
		leader.node.crash()
		if _, _, err := t.waitForLeader(t.takeoverBound(), others...); err != nil {
			return err
		}
		t.sleep(t.TTL)
		calls, bids = count()-calls, count("Acquire")-bids
		const a, b = 25, 10
		if err := errors.Join(expect(calls <= a*n+b, fmt.Sprintf("at most %d·%d+%d calls from a crash to one TTL after the next leader", a, n, b), calls),
			expect(bids <= 2*n, fmt.Sprintf("at most %d bids", 2*n), bids)); err != nil {
			return err
		}
		for _, p := range others {
			p.watcherEnded = true
			p.Pause()
		}
		for _, p := range others {
			if err := p.node.close(2 * t.TTL); err != nil {
				return err
			}
		}
	}
	return nil
}

func liveCloseHangs(t *Trial) error {
	n, err := t.node("a", nil)
	if err != nil {
		return err
	}
	var members []*participant
	for i := range 3 {
		p, err := n.join(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		if err := p.lead(); err != nil {
			return err
		}
		members = append(members, p)
	}
	if err := t.waitUntil(2*t.takeoverBound(), "all three to lead", func() bool { return members[0].Leading() && members[1].Leading() && members[2].Leading() }); err != nil {
		return err
	}
	n.wire.Cut(true)
	for _, p := range members {
		p.watcherEnded = true
	}
	limit := t.TTL / 2
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	n.closed.Store(true)
	err = n.Close(ctx)
	took := time.Since(began)
	if err := errors.Join(expect(err != nil, "an error that names the leases that were not released", err),
		expect(took <= limit+t.TTL/20+t.Late, fmt.Sprintf("Close to return within %v", limit), took)); err != nil {
		return err
	}
	for _, p := range members {
		if err := expect(!p.Leading(), "no leadership of this process after Close", p.Name()); err != nil {
			return err
		}
	}
	return nil // a bubble panics by itself if a goroutine is left
}

func liveClose(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	t.sleep(t.TTL)
	a.watcherEnded = true
	if err := a.node.close(t.TTL); err != nil {
		return err
	}
	if _, err := t.waitTime(t.handoverBound(), "the next leader after Close", others[0].Leading); err != nil {
		return err
	}
	ctx, cancel := t.callContext()
	defer cancel()
	if err := a.node.Close(ctx); !errors.Is(err, backend.ErrClosed) {
		return fmt.Errorf("second Close: expected ErrClosed, got %v", err)
	}
	if _, err := a.node.Join("other"); !errors.Is(err, backend.ErrClosed) {
		return fmt.Errorf("expected ErrClosed from Join after Close, got %v", err)
	}
	return nil
}

func liveHeal(t *Trial) error {
	members, err := t.startCandidates(3, "jobs", nil)
	if err != nil {
		return err
	}
	faults := []Fate{{Lost: true}, {AnswerLost: true}, {Err: errInjected}, {Before: t.TTL / 2}, {After: t.TTL / 2}}
	for i, f := range faults {
		for j, p := range members {
			if (i+j)%3 != 0 || i == 0 {
				p.node.wire.Decide(func(Call) Fate { return f })
			}
		}
		t.sleep(2*t.TTL + t.TTL*time.Duration(i)/7)
		for _, p := range members {
			p.node.wire.Decide(nil)
		}
		if _, _, err := t.waitForLeader(t.takeoverBound(), members...); err != nil {
			return fmt.Errorf("after fault %d was healed: %w", i, err)
		}
		t.sleep(t.renewEvery() + t.TTL/10)
		if err := t.waitForOneLeader(members...); err != nil {
			return fmt.Errorf("after fault %d was healed: %w", i, err)
		}
		for _, p := range members {
			if err := t.waitUntil(t.TTL, p.node.key+" to know the leader", func() bool { _, _, ok := p.Leader(); return ok }); err != nil {
				return fmt.Errorf("%w: %v", err, p.Current())
			}
		}
	}
	return nil
}

func (t *Trial) clockMargin() time.Duration { return t.TTL / 6 }
