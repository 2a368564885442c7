package conformance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var nominateCases = []Case{
	{Rule: "P12", Name: "the nominee leads next", run: nominateLive,
		Says: "A live nominee accepts, the leader steps down, and the nominee leads next."},
	{Rule: "P12", Name: "an absent nominee changes nothing", run: nominateDead,
		Says: "The leader steps down only after the nominee has accepted. A nominee that does not exist neither ends the leadership nor delays a later failover."},
	{Rule: "P12", Name: "only the nominee bids for one TTL", run: nominateGrace,
		Says: "After the leader has stepped down for a nominee, only the nominee bids for one TTL; then the others bid, too."},
	{Rule: "P13", Name: "a deposed leader waits one TTL", run: deposeStaysOut,
		Says: "The store refuses a deposed leader's next renewal. The leader then releases its lease, and does not campaign for one TTL."},
	{Rule: "P13", Name: "a deposed leader waits one TTL after its release", run: deposeAfterDrain,
		Says: "A deposed leader does not campaign for one TTL after its release, however long its function took to return."},
	{Rule: "P14", Name: "requests need a leader", run: requestsNeedLeader,
		Says: "Nominate and Depose return an error if the election has no leader."},
}

func (t *Trial) nominate(by *participant, id string) {
	t.retryRequest("nominate "+id, func(ctx context.Context) error { return by.Nominate(ctx, id) })
}

// retryRequest makes a request, which names the current term. The participant may not
// know that term yet, so retryRequest repeats the request for a while.
func (t *Trial) retryRequest(what string, do func(context.Context) error) {
	t.waitUntil(t.renewEvery()+t.handoverBound(), what, func() bool { return do(t.callContext()) == nil })
}

func (t *Trial) depose(by *participant) { t.retryRequest("depose", by.Depose) }

func nominateLive(t *Trial) {
	leader, others := t.startWithLeader(3, "jobs", nil)
	for round := range 3 {
		nominee, other := others[round%2], others[(round+1)%2]
		t.sleep(t.TTL)
		term := leader.Leadership().Term
		t.nominate(other, nominee.node.ID())
		// The nominee sees the request, the leader sees the consent, and the nominee sees the release.
		t.waitUntil(2*t.renewEvery()+2*t.handoverBound(), "the nominee to lead", nominee.Leading)
		for _, e := range other.events() {
			if e.Term > term && e.Kind == election.Elected && e.Leader.ID != nominee.node.ID() {
				fail("round %d: expected the nominee %s to lead next, got %v", round, nominee.node.key, e)
			}
		}
		t.waitUntil(t.TTL/10, "the leader to step down with reason nominated", func() bool { return leader.told(election.ReasonNominated) })
		others = []*participant{leader, other}
		leader = nominee
	}
	t.sleep(2 * t.TTL)
	require(expect(leader.Leading(), leader.events(), "the last nominee to stay leader"))
}

func nominateDead(t *Trial) {
	leader, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	term := leader.Leadership().Term
	t.nominate(b, "ghost")
	t.sleep(4 * t.TTL)
	if l := leader.Leadership(); l == nil || l.Term != term {
		fail("expected the leadership of term %d to continue beside a nominee that does not exist, got %v", term, leader.events())
	}
	leader.node.crash()
	t.waitUntil(t.TTL+t.TTL/20+t.renewEvery(), "a takeover as fast as without a nomination", b.Leading)
	now := t.client("reader").read("jobs")
	require(equal(now.Request, backend.Request{}, "request after the next grant"))
}

func nominateGrace(t *Trial) {
	leader, others := t.startWithLeader(3, "jobs", nil)
	nominee, other := others[0], others[1]
	t.sleep(t.TTL)
	var accepted atomic.Bool
	nominee.node.wire.Decide(func(c Call) Fate { // the nominee accepts and is then cut off
		if c.Method == "Request" {
			accepted.Store(true)
			return Fate{}
		}
		return Fate{Lost: accepted.Load()}
	})
	log := leader.node.keepCalls()
	t.nominate(other, nominee.node.ID())
	t.waitUntil(t.takeoverBound(), "the leader to step down for the nominee", func() bool { return !leader.Leading() })
	t.waitUntil(t.TTL/10, "the leader's event with reason nominated", func() bool { return leader.told(election.ReasonNominated) })
	next, _ := t.waitForLeader(t.TTL+t.takeoverBound(), leader, other)
	won := next.wonAt()
	for _, c := range log() {
		if c.Method == "Release" {
			began := leader.node.wire.Began.Sub(t.began) + c.Sent
			require(expect(won >= began+t.TTL, won, "only the nominee to bid before %v", began+t.TTL))
			return
		}
	}
	fail("expected the leader to release the lease, but it did not")
}

func deposeStaysOut(t *Trial) {
	leader, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	t.sleep(t.TTL)
	t.depose(b)
	t.waitUntil(t.renewEvery()+t.handoverBound(), "another leader after a deposition", b.Leading)
	t.waitUntil(t.TTL/10, "the leader's event with reason deposed", func() bool { return leader.told(election.ReasonDeposed) })
	r, err := b.Record(t.callContext())
	require(err, equal(r.End, backend.Deposed, "End of the last leadership"))
	b.Pause() // the deposed leader is now the only candidate
	t.sleep(t.TTL)
	t.waitForLeader(t.takeoverBound(), leader)
	t.depose(b)
	t.waitUntil(t.renewEvery()+t.TTL/10, "the only candidate to be deposed", func() bool { return !leader.Leading() })
	took := t.waitUntil(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", leader.Leading)
	require(expect(took >= t.TTL-t.TTL/20-t.Late, took, "the deposed leader not to campaign for %v", t.TTL))
}

func deposeAfterDrain(t *Trial) {
	a := t.leader("a", nil, func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		t.sleep(t.TTL * 9 / 10)
		return nil
	})
	t.depose(a)
	reader := t.client("reader")
	t.waitUntil(t.renewEvery()+t.TTL*11/10, "the deposed leader to release the lease", func() bool { return reader.read("jobs").Vacant() })
	took := t.waitUntil(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", a.Leading)
	require(expect(took >= t.TTL-t.TTL/20-t.Late, took, "the deposed leader not to campaign for %v after its release", t.TTL))
}

func requestsNeedLeader(t *Trial) {
	a := t.participant("a", "jobs", nil)
	for what, do := range map[string]func(context.Context) error{
		"Nominate": func(ctx context.Context) error { return a.Nominate(ctx, "b") },
		"Depose":   a.Depose,
	} {
		err := do(t.callContext())
		require(expect(errors.Is(err, backend.ErrInvalid), err, "ErrInvalid from %s without a leader", what))
	}
}
