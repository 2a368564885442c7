package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

var outageCases = []Case{
	{Rule: "L4", Name: "no change in a short outage with lost requests", run: liveOutage(Fate{Lost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change in a short outage with lost answers", run: liveOutage(Fate{AnswerLost: true}), Says: shortOutage},
	{Rule: "L4", Name: "no change in a short outage with failing calls", run: liveOutage(Fate{Err: errInjected}), Says: shortOutage},
	{Rule: "L5", Name: "a Listen whose answer was lost is repeated", run: liveListenAgain, needs: []need{pushesAll},
		Says: "A manager does not wait forever for a Listen whose answer was lost. Once it can reach the store, it receives changes again."},
	{Rule: "L6", Name: "no herd of calls at a failover", run: liveCallsAtFailover,
		Says: "A failover with n candidates takes at most a·n + b calls."},
	{Rule: "L7", Name: "Close releases the lease at once", run: liveClose,
		Says: "Close steps down and releases the lease, so the next leader does not wait for the lease to expire."},
}

const shortOutage = "The leader does not change in an outage of the store shorter than TTL − clock margin − retry."

func liveOutage(fate Fate) func(*Trial) {
	return func(t *Trial) {
		leader, others := t.startWithLeader(2, "jobs", nil)
		term := leader.Leadership().Term
		// At worst the outage begins just before a renewal is due. A call that hangs must
		// time out before the manager sends the next one.
		length := t.TTL - t.clockMargin() - t.renewEvery() - t.TTL/20
		if fate.Err == nil {
			length -= t.callTimeout()
		}
		for j := range 5 {
			t.sleep(t.TTL + t.renewEvery()*time.Duration(j)/5)
			decide(append(others, leader), func(Call) Fate { return fate })
			t.sleep(length)
			decide(append(others, leader), nil)
			t.sleep(t.TTL)
			if l := leader.Leadership(); l == nil || l.Term != term {
				fail("outage of %v, number %d: expected the leadership of term %d to continue, got %v", length, j, term, leader.events())
			}
		}
	}
}

func liveListenAgain(t *Trial) {
	leader, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	b.node.wire.Decide(func(c Call) Fate { return Fate{AnswerLost: c.Method == "Listen"} })
	t.sleep(t.TTL)
	b.node.wire.Decide(nil)
	t.sleep(3 * t.TTL)
	leader.Pause()
	t.waitUntil(t.handoverBound(), "the next leader, three TTLs after the follower could reach the store again", b.Leading)
}

func liveCallsAtFailover(t *Trial) {
	for _, n := range []int{5, 20} {
		name := fmt.Sprintf("jobs%d", n)
		var members []*participant
		for i := range n {
			members = append(members, t.candidate(fmt.Sprintf("c%02d", i), name, nil))
		}
		leader, others := t.waitForLeader(2*t.takeoverBound(), members...)
		t.sleep(2 * t.TTL)
		count := func(methods ...string) (sum int) {
			for _, p := range others {
				sum += p.node.wire.Count(methods...)
			}
			return sum
		}
		calls, bids := count(), count("Acquire")
		leader.node.crash()
		t.waitForLeader(t.takeoverBound(), others...)
		t.sleep(t.TTL)
		calls, bids = count()-calls, count("Acquire")-bids
		const a, b = 25, 10
		require(expect(calls <= a*n+b, calls, "at most %d·%d+%d calls from a crash to one TTL after the next leader", a, n, b),
			expect(bids <= 2*n, bids, "at most %d bids", 2*n))
		for _, p := range others {
			p.Pause()
		}
		for _, p := range others {
			p.end(2 * t.TTL)
		}
	}
}

func liveClose(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	t.sleep(t.TTL)
	a.end(t.TTL)
	t.waitUntil(t.handoverBound(), "the next leader after Close", others[0].Leading)
	if err := a.node.Close(t.callContext()); !errors.Is(err, backend.ErrClosed) {
		fail("second Close: expected ErrClosed, got %v", err)
	}
	if _, err := a.node.Join("other"); !errors.Is(err, backend.ErrClosed) {
		fail("expected ErrClosed from Join after Close, got %v", err)
	}
}

func (t *Trial) clockMargin() time.Duration { return t.TTL / 6 }
