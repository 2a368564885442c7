package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var nominateCases = []Case{
	{Rule: "P12", Name: "the nominee leads next", Run: nominateLive,
		Says: "A live nominee accepts, the leader steps down, and the nominee leads next."},
	{Rule: "P12", Name: "an absent nominee changes nothing", Run: nominateDead,
		Says: "The leader steps down only after the nominee has accepted. A nominee that does not exist neither ends the leadership nor delays a later failover."},
	{Rule: "P12", Name: "only the nominee bids for one TTL", Run: nominateGrace,
		Says: "After the leader has stepped down for a nominee, only the nominee bids for one TTL; then the others bid, too."},
	{Rule: "P13", Name: "a deposed leader waits one TTL", Run: deposeStaysOut,
		Says: "The store refuses a deposed leader's next renewal. The leader then releases its lease, and does not campaign for one TTL."},
	{Rule: "P13", Name: "a deposed leader waits one TTL after its release", Run: deposeAfterDrain,
		Says: "A deposed leader does not campaign for one TTL after its release, however long its function took to return."},
	{Rule: "P14", Name: "requests need a leader", Run: requestsNeedLeader,
		Says: "Nominate and Depose return an error if the election has no leader."},
}

// nominate makes a nomination through the given participant.
func (t *Trial) nominate(by *participant, id string) error {
	return t.retryRequest("nominate "+id, func(ctx context.Context) error { return by.Nominate(ctx, id) })
}

// retryRequest makes a request, which names the current term. The participant may not
// know that term yet, so retryRequest repeats the request for a while.
func (t *Trial) retryRequest(what string, do func(context.Context) error) (err error) {
	t.waitUntil(t.renewEvery()+t.handoverBound(), what, func() bool {
		ctx, cancel := t.callContext()
		defer cancel()
		err = do(ctx)
		return !errors.Is(err, backend.ErrInvalid)
	})
	if err != nil {
		return fmt.Errorf("%s: expected nil, got %w", what, err)
	}
	return nil
}

// depose makes a deposition through the given participant.
func (t *Trial) depose(by *participant) error { return t.retryRequest("depose", by.Depose) }

func nominateLive(t *Trial) error {
	leader, others, err := t.startWithLeader(3, "jobs", nil)
	if err != nil {
		return err
	}
	for round := range 3 {
		nominee, other := others[round%2], others[(round+1)%2]
		t.sleep(t.TTL)
		leadership, err := t.waitForLeadership(0, leader)
		if err != nil {
			return fmt.Errorf("round %d: %w: %v", round, err, leader.events())
		}
		term := leadership.Term
		if err := t.nominate(other, nominee.node.ID()); err != nil {
			return err
		}
		// The nominee sees the request, the leader sees the consent, and the nominee sees
		// the release.
		if _, err := t.waitTime(2*t.renewEvery()+2*t.handoverBound(), "the nominee to lead", nominee.Leading); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, e := range other.events() {
			if e.Term > term && e.Kind == election.Elected && e.Leader.ID != nominee.node.ID() {
				return fmt.Errorf("round %d: expected the nominee %s to lead next, got %v", round, nominee.node.key, e)
			}
		}
		if err := t.waitForEvent(leader, "the leader to step down with reason nominated", func(e election.Event) bool { return e.Reason == election.ReasonNominated && !e.Leading }); err != nil {
			return err
		}
		others = []*participant{leader, other}
		leader = nominee
	}
	t.sleep(2 * t.TTL)
	return expect(leader.Leading(), "the last nominee to stay leader", leader.events())
}

func nominateDead(t *Trial) error {
	leader, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	first, err := t.waitForLeadership(t.takeoverBound(), leader)
	if err != nil {
		return err
	}
	term := first.Term
	if err := t.nominate(b, "ghost"); err != nil {
		return err
	}
	t.sleep(4 * t.TTL)
	if l := leader.Leadership(); l == nil || l.Term != term {
		return fmt.Errorf("expected the leadership of term %d to continue beside a nominee that does not exist, got %v", term, leader.events())
	}
	leader.node.crash()
	if _, err := t.waitTime(t.TTL+t.TTL/20+t.renewEvery(), "a takeover as fast as without a nomination", b.Leading); err != nil {
		return err
	}
	now, err := t.client("reader").read("jobs")
	return errors.Join(err, equal("request after the next grant", now.Request, backend.Request{}))
}

func nominateGrace(t *Trial) error {
	leader, others, err := t.startWithLeader(3, "jobs", nil)
	if err != nil {
		return err
	}
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
	if err := t.nominate(other, nominee.node.ID()); err != nil {
		return err
	}
	if err := t.waitUntil(t.takeoverBound(), "the leader to step down for the nominee", func() bool { return !leader.Leading() }); err != nil {
		return err
	}
	if err := t.waitForEvent(leader, "the leader's event with reason nominated", func(e election.Event) bool { return e.Reason == election.ReasonNominated }); err != nil {
		return err
	}
	next, _, err := t.waitForLeader(t.TTL+t.takeoverBound(), leader, other)
	if err != nil {
		return fmt.Errorf("after the nominee was cut off: %w", err)
	}
	won, _ := next.eventTime(func(e election.Event) bool { return e.Leading })
	for _, c := range log() {
		if c.Method == "Release" {
			began := leader.node.wire.Began.Sub(t.began) + c.Sent
			return expect(won >= began+t.TTL, fmt.Sprintf("only the nominee to bid before %v", began+t.TTL), won)
		}
	}
	return errors.New("expected the leader to release the lease, but it did not")
}

func deposeStaysOut(t *Trial) error {
	leader, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	t.sleep(t.TTL)
	if err := t.depose(b); err != nil {
		return err
	}
	if _, err := t.waitTime(t.renewEvery()+t.handoverBound(), "another leader after a deposition", b.Leading); err != nil {
		return err
	}
	if err := t.waitForEvent(leader, "the leader's event with reason deposed", func(e election.Event) bool { return e.Reason == election.ReasonDeposed }); err != nil {
		return err
	}
	ctx, cancel := t.callContext()
	r, err := b.Record(ctx)
	cancel()
	if err := errors.Join(err, equal("End of the last leadership", r.End, backend.Deposed)); err != nil {
		return err
	}
	b.Pause() // the deposed leader is now the only candidate
	t.sleep(t.TTL)
	if _, _, err := t.waitForLeader(t.takeoverBound(), leader); err != nil {
		return err
	}
	if err := t.depose(b); err != nil {
		return err
	}
	if err := t.waitUntil(t.renewEvery()+t.TTL/10, "the only candidate to be deposed", func() bool { return !leader.Leading() }); err != nil {
		return err
	}
	took, err := t.waitTime(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", leader.Leading)
	return errors.Join(err, expect(took >= t.TTL-t.TTL/20-t.Late, fmt.Sprintf("the deposed leader not to campaign for %v", t.TTL), took))
}

func deposeAfterDrain(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := a.leadWith(func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		t.sleep(t.TTL * 9 / 10)
		return nil
	}); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	t.sleep(t.renewEvery())
	if err := t.depose(a); err != nil {
		return err
	}
	reader := t.client("reader")
	if err := t.waitUntil(t.renewEvery()+t.TTL*11/10, "the deposed leader to release the lease", func() bool { l, err := reader.read("jobs"); return err == nil && l.Vacant() }); err != nil {
		return err
	}
	took, err := t.waitTime(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", a.Leading)
	return errors.Join(err, expect(took >= t.TTL-t.TTL/20-t.Late, fmt.Sprintf("the deposed leader not to campaign for %v after its release", t.TTL), took))
}

func requestsNeedLeader(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	var errs []error
	for what, do := range map[string]func(context.Context) error{
		"Nominate": func(ctx context.Context) error { return a.Nominate(ctx, "b") },
		"Depose":   a.Depose,
	} {
		ctx, cancel := t.callContext()
		err := do(ctx)
		cancel()
		errs = append(errs, expect(errors.Is(err, backend.ErrInvalid), "ErrInvalid from "+what+" without a leader", err))
	}
	return errors.Join(errs...)
}
