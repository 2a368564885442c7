package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var wishCases = []Case{
	{Rule: "P12", Name: "the nominee leads next", Run: wishNominee, skip: exclusive,
		Says: "A live nominee accepts, the leader steps down in order, and the nominee leads next."},
	{Rule: "P12", Name: "a dead nominee costs nothing", Run: wishDead, skip: exclusive,
		Says: "Nothing happens until the nominee accepts: one that is not there costs no leadership and no time at a later fail-over."},
	{Rule: "P12", Name: "only the nominee bids for a grace time", Run: wishGrace, skip: exclusive,
		Says: "After the leader has stepped down for a nominee only the nominee bids for one TTL; then the others do."},
	{Rule: "P13", Name: "the deposed stays out", Run: wishDepose, skip: exclusive,
		Says: "A deposed leader's next renewal is refused, it releases by itself, and stays out for one TTL."},
	{Rule: "P13", Name: "the deposed stays out after a long drain", Run: wishDrain,
		Says: "The deposed stays out for one TTL from its release, however long its function took to return."},
	{Rule: "P14", Name: "wishes need a leader", Run: wishVacant,
		Says: "To nominate or depose where nobody leads is an error."},
}

func (t *Trial) nominate(by *seat, id string) error {
	ctx, cancel := t.ctx()
	defer cancel()
	if err := by.Nominate(ctx, id); err != nil {
		return fmt.Errorf("nominate %q: expected nil, got %w", id, err)
	}
	return nil
}

// depose deposes and expects no error.
func (t *Trial) depose(by *seat) error {
	ctx, cancel := t.ctx()
	defer cancel()
	if err := by.Depose(ctx); err != nil {
		return fmt.Errorf("depose: expected nil, got %w", err)
	}
	return nil
}

func wishNominee(t *Trial) error {
	leader, others, err := t.led(3, "jobs", nil)
	if err != nil {
		return err
	}
	for round := range 3 {
		nominee, other := others[round%2], others[(round+1)%2]
		t.sleep(t.TTL)
		reign := leader.Leadership()
		if reign == nil {
			return fmt.Errorf("round %d: expected %s to lead, it does not: %v", round, leader.node.key, leader.events())
		}
		term := reign.Term
		if err := t.nominate(other, nominee.node.ID()); err != nil {
			return err
		}
		// It sees the wish, the leader sees the consent, and it sees the release.
		if _, err := t.after(2*t.renewEvery()+2*t.handover(), "the nominee to lead", nominee.Leading); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, e := range other.events() {
			if e.Term > term && e.Kind == election.Elected && e.Leader.ID != nominee.node.ID() {
				return fmt.Errorf("round %d: expected the nominee %s to lead next, got %v", round, nominee.node.key, e)
			}
		}
		if err := must(leader.heard(func(e election.Event) bool { return e.Reason == election.ReasonNominated && !e.Leading }), "the leader to step down with reason nominated", leader.events()); err != nil {
			return err
		}
		others = []*seat{leader, other}
		leader = nominee
	}
	t.sleep(2 * t.TTL)
	return must(leader.Leading(), "the last nominee to go on leading", leader.events())
}

func wishDead(t *Trial) error {
	leader, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	term := termNow(leader)
	if err := t.nominate(b, "ghost"); err != nil {
		return err
	}
	t.sleep(4 * t.TTL)
	if l := leader.Leadership(); l == nil || l.Term != term {
		return fmt.Errorf("expected the reign of term %d to go on beside a nominee that is not there, got %v", term, leader.events())
	}
	leader.node.dies()
	if _, err := t.after(t.TTL+t.Takeover+t.TTL/20+t.renewEvery(), "a take-over as fast as ever", b.Leading); err != nil {
		return err
	}
	now, err := t.client("reader").look("jobs")
	return errors.Join(err, same("wish after the next grant", now.Wish, backend.Wish{}))
}

func wishGrace(t *Trial) error {
	leader, others, err := t.led(3, "jobs", nil)
	if err != nil {
		return err
	}
	nominee, other := others[0], others[1]
	t.sleep(t.TTL)
	var accepted atomic.Bool
	nominee.node.wire.Decide(func(c Call) Fate { // it accepts, and is cut off
		if c.Method == "Ask" {
			accepted.Store(true)
			return Fate{}
		}
		return Fate{Lost: accepted.Load()}
	})
	if err := t.nominate(other, nominee.node.ID()); err != nil {
		return err
	}
	if err := t.until(t.bound(), "the leader to step down for the nominee", func() bool { return !leader.Leading() }); err != nil {
		return err
	}
	began, _ := leader.toldAt(func(e election.Event) bool { return e.Reason == election.ReasonNominated })
	next, _, err := t.elected(t.TTL+t.bound(), leader, other)
	if err != nil {
		return fmt.Errorf("when the nominee has died: %w", err)
	}
	won, _ := next.toldAt(func(e election.Event) bool { return e.Leading })
	return must(won >= began+t.TTL, fmt.Sprintf("nobody but the nominee to bid before %v", began+t.TTL), won)
}

func wishDepose(t *Trial) error {
	leader, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	t.sleep(t.TTL)
	if err := t.depose(b); err != nil {
		return err
	}
	if _, err := t.after(t.renewEvery()+t.handover(), "another leader after a deposition", b.Leading); err != nil {
		return err
	}
	if err := must(leader.heard(func(e election.Event) bool { return e.Reason == election.ReasonDeposed }), "the leader to be told that it was deposed", leader.events()); err != nil {
		return err
	}
	ctx, cancel := t.ctx()
	r, err := b.Record(ctx)
	cancel()
	if err := errors.Join(err, same("how the last reign ended", r.End, backend.Deposed)); err != nil {
		return err
	}
	b.Pause() // now the deposed is alone
	t.sleep(t.TTL)
	if _, _, err := t.elected(t.bound(), leader); err != nil {
		return err
	}
	if err := t.depose(b); err != nil {
		return err
	}
	if err := t.until(t.renewEvery()+t.TTL/10, "the only candidate to be deposed", func() bool { return !leader.Leading() }); err != nil {
		return err
	}
	took, err := t.after(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", leader.Leading)
	return errors.Join(err, must(took >= t.TTL-t.TTL/20-t.Late, fmt.Sprintf("the deposed to stay out for %v", t.TTL), took))
}

func wishDrain(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
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
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	t.sleep(t.renewEvery())
	if err := t.depose(a); err != nil {
		return err
	}
	reader := t.client("reader")
	if err := t.until(t.renewEvery()+t.TTL*11/10, "the deposed to release", func() bool { l, err := reader.look("jobs"); return err == nil && l.Vacant() }); err != nil {
		return err
	}
	took, err := t.after(t.TTL+t.renewEvery()+t.TTL/20, "the only candidate to lead again", a.Leading)
	return errors.Join(err, must(took >= t.TTL-t.TTL/20-t.Late, fmt.Sprintf("the deposed to stay out for %v from its release", t.TTL), took))
}

func wishVacant(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	ctx, cancel := t.ctx()
	defer cancel()
	return errors.Join(
		must(errors.Is(a.Nominate(ctx, "b"), backend.ErrInvalid), "ErrInvalid from Nominate where nobody leads", a.Nominate(ctx, "b")),
		must(errors.Is(a.Depose(ctx), backend.ErrInvalid), "ErrInvalid from Depose where nobody leads", a.Depose(ctx)))
}
