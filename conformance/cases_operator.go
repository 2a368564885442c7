package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var operatorCases = []Case{
	{Rule: "P1", Name: "pause and resume", Run: operatorPause,
		Says: "Pause makes this process step down and not campaign until Resume, for one election or for all."},
	{Rule: "P2", Name: "who resigns is out for half a TTL", Run: operatorResign,
		Says: "Who resigns campaigns again after half a TTL; alone it then leads again, in a new term."},
	{Rule: "P3", Name: "a sick node steps down and stays out", Run: operatorHealth,
		Says: "A failing health check makes this process step down from everything and stay out until it passes."},
	{Rule: "P3", Name: "a health check that hangs has failed", Run: operatorHealthHangs,
		Says: "A health check that hangs past its context counts as failed."},
	{Rule: "P4", Name: "an observer never writes", Run: operatorObserver,
		Says: "An observer never campaigns and never writes to the store; it sees all that others see."},
	{Rule: "P5", Name: "silence after a failure", Run: operatorSilence, skip: exclusive,
		Says: "After a leader has failed nobody leads for Silence; an orderly release skips it."},
	{Rule: "P6", Name: "priority of the incumbent", Run: operatorPriority, skip: exclusive,
		Says: "After a leader has failed the others hold back for Priority, so that a candidate with the same ID can return; an orderly release skips it."},
	{Rule: "P7", Name: "the same id twice", Run: operatorSameID, skip: exclusive,
		Says: "Two live processes with the same ID are two candidates, and it is reported."},
	{Rule: "P8", Name: "one attempt", Run: operatorTry,
		Says: "Try makes one attempt: nil if somebody else leads; what was won is ended with Resign, and nothing campaigns afterwards."},
	{Rule: "P9", Name: "campaigning until elected", Run: operatorCampaign,
		Says: "Campaign returns when this process is elected, or with the context's error, and then it does not campaign any more."},
	{Rule: "P10", Name: "running again after every loss", Run: operatorRun,
		Says: "Run campaigns, calls the function, joins it and campaigns again until its context ends; then it returns nil when the lease is released."},
	{Rule: "P11", Name: "leaving and joining again", Run: operatorLeave,
		Says: "Leave resigns and forgets the election, and returns when nothing is left in the store; it can be joined again."},
}

func operatorPause(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	a.Pause()
	if _, err := t.after(t.handover(), "the other to lead after a pause", b.Leading); err != nil {
		return err
	}
	b.node.Pause()
	t.sleep(2 * t.TTL)
	if err := must(leading([]*seat{a, b}) == nil, "nobody to lead while all are paused", fmt.Sprint(a.Current(), b.Current())); err != nil {
		return err
	}
	a.Resume()
	if _, err := t.after(t.handover()+t.renewEvery(), "the resumed candidate to lead", a.Leading); err != nil {
		return err
	}
	b.node.Resume()
	t.sleep(t.TTL)
	return errors.Join(must(a.Leading() && !b.Leading(), "a resumed follower to leave the leader alone", fmt.Sprint(a.Current(), b.Current())),
		must(a.heard(func(e election.Event) bool { return e.Reason == election.ReasonPaused }), "an event with reason paused", a.events()))
}

func operatorResign(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	term := termNow(a)
	ctx, cancel := t.ctx()
	defer cancel()
	if err := a.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
	}
	now, err := t.client("reader").look("jobs")
	if err := errors.Join(err, must(now.Vacant() && now.End == backend.Released, "a released lease when Resign returns", now)); err != nil {
		return err
	}
	took, err := t.after(t.TTL, "the only candidate to lead again", a.Leading)
	if err := errors.Join(err, must(took >= t.TTL/2-t.TTL/20-t.Late, fmt.Sprintf("it to stay out for %v", t.TTL/2), took)); err != nil {
		return err
	}
	if err := must(termNow(a) > term, fmt.Sprintf("a term above %d", term), termNow(a)); err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.Resign(ctx); err != nil { // resigning what is not led does nothing
		return fmt.Errorf("resign of what is not led: expected nil, got %w", err)
	}
	return nil
}

func operatorHealth(t *Trial) error {
	var sick atomic.Bool
	a, err := t.seat("a", "jobs", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if sick.Load() {
				return errors.New("this node is sick")
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	sick.Store(true)
	if _, err := t.after(t.renewEvery()+t.handover(), "the other to lead after the health check has failed", b.Leading); err != nil {
		return err
	}
	if err := must(a.heard(func(e election.Event) bool { return e.Reason == election.ReasonHealth }), "an event with reason health", a.events()); err != nil {
		return err
	}
	b.Pause()
	t.sleep(2 * t.TTL)
	if err := must(!a.Leading(), "a sick node to stay out", a.Current()); err != nil {
		return err
	}
	sick.Store(false)
	_, err = t.after(2*t.renewEvery()+t.handover(), "the node to lead when it is well again", a.Leading)
	return err
}

func operatorHealthHangs(t *Trial) error {
	var hangs atomic.Bool
	let := make(chan struct{})
	a, err := t.seat("a", "jobs", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if hangs.Load() {
				<-let
			}
			return nil
		}
	})
	if err != nil {
		close(let)
		return err
	}
	defer close(let)
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	hangs.Store(true)
	limit := t.renewEvery() + t.callTimeout() + t.TTL/20
	return t.until(limit, "a leader whose health check hangs to step down", func() bool {
		return a.heard(func(e election.Event) bool { return e.Reason == election.ReasonHealth })
	})
}

func operatorObserver(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	o, err := t.seat("observer", "jobs", func(o *election.Options) { o.Observer = true })
	if err != nil {
		return err
	}
	if err := o.Lead(nil); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("a Lead of an observer: expected ErrInvalid, got %v", err)
	}
	t.sleep(2 * t.TTL)
	a.node.dies()
	next, _, err := t.elected(t.bound(), others...)
	if err != nil {
		return err
	}
	if err := t.until(t.bound(), "the observer to know the new leader", func() bool {
		who, _, ok := o.Leader()
		return ok && who.ID == next.node.ID()
	}); err != nil {
		return err
	}
	o.left = true
	if err := o.node.close(t.TTL); err != nil {
		return err
	}
	writes := o.node.wire.Count("Acquire", "Renew", "Release", "Ask", "Announce")
	return same("writing calls of an observer", writes, 0)
}

func operatorSilence(t *Trial) error {
	silence := t.TTL
	leader, others, err := t.led(3, "jobs", func(o *election.Options) { o.Silence = silence })
	if err != nil {
		return err
	}
	t.sleep(t.TTL)
	sent := leader.node.lastSent("jobs")
	leader.node.dies()
	next, _, err := t.elected(t.bound()+silence, others...)
	if err != nil {
		return err
	}
	won, _ := next.toldAt(func(e election.Event) bool { return e.Leading })
	if err := must(won >= sent+t.TTL+silence, fmt.Sprintf("silence until %v: the last renewal was sent at %v", sent+t.TTL+silence, sent), won); err != nil {
		return err
	}
	t.sleep(t.TTL)
	next.Pause() // in order: no silence
	_, err = t.after(t.handover(), "the next leader after an orderly release, without silence", func() bool { return leading(others) != nil })
	return err
}

func operatorPriority(t *Trial) error {
	priority := t.TTL
	with := func(o *election.Options) { o.Priority = priority }
	a, others, err := t.led(2, "jobs", with)
	if err != nil {
		return err
	}
	id, b := a.node.ID(), others[0]
	a.node.dies()
	back, err := t.seat(id, "jobs", with) // started again at once
	if err != nil {
		return err
	}
	if err := back.lead(); err != nil {
		return err
	}
	next, _, err := t.elected(t.bound(), back, b)
	if err != nil {
		return err
	}
	if err := must(next == back, "the candidate with the failed leader's id to return", next.node.key); err != nil {
		return err
	}
	t.sleep(t.TTL)
	sent := back.node.lastSent("jobs")
	back.node.dies() // now it does not return
	if _, _, err := t.elected(t.bound()+priority, b); err != nil {
		return err
	}
	won, _ := b.toldAt(func(e election.Event) bool { return e.Leading })
	return must(won >= sent+t.TTL+priority, fmt.Sprintf("the other to hold back until %v: the last renewal was sent at %v", sent+t.TTL+priority, sent), won)
}

func operatorSameID(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	twin, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := twin.lead(); err != nil {
		return err
	}
	if err := t.until(2*t.TTL, "a notice that another process has the same id", func() bool {
		return twin.heard(func(e election.Event) bool {
			return e.Kind == election.Notice && e.Reason == election.ReasonSameID
		})
	}); err != nil {
		return err
	}
	if err := must(a.Leading() && !twin.Leading(), "only the first of two processes with one id to lead", fmt.Sprint(a.Current(), twin.Current())); err != nil {
		return err
	}
	a.node.dies()
	_, _, err = t.elected(t.bound(), twin)
	return err
}

func operatorTry(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	try := func() (*election.Leadership, error) {
		ctx, cancel := context.WithTimeout(context.Background(), t.TTL)
		defer cancel()
		return b.Try(ctx)
	}
	for range 2 {
		if l, err := try(); err != nil || l != nil {
			return fmt.Errorf("an attempt while somebody else leads: expected nil and no error, got %v and %v", show(l), err)
		}
	}
	a.left = true
	if err := a.node.close(t.TTL); err != nil {
		return err
	}
	l, err := try()
	if err != nil || l == nil || !l.Leading() {
		return fmt.Errorf("an attempt at a free lease: expected a leadership, got %v and error %v", show(l), err)
	}
	t.sleep(2 * t.TTL)
	if err := must(l.Leading(), "what was won to be renewed", b.events()); err != nil {
		return err
	}
	ctx, cancel := t.ctx()
	defer cancel()
	if err := l.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
	}
	t.sleep(2 * t.TTL)
	now, err := t.client("reader").look("jobs")
	return errors.Join(err, must(!b.Leading() && now.Vacant(), "nobody to campaign after an attempt that was resigned", now))
}

func operatorCampaign(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.TTL)
	l, err := b.Campaign(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) || l != nil {
		return fmt.Errorf("campaign while somebody else leads: expected the context's error, got %v and %v", show(l), err)
	}
	a.Pause()
	t.sleep(t.TTL)
	if err := must(!b.Leading(), "no campaign after the context has ended", b.Current()); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), t.bound())
	defer cancel()
	if l, err = b.Campaign(ctx); err != nil || l == nil || !l.Leading() {
		return fmt.Errorf("campaign for a free lease: expected a leadership, got %v and error %v", show(l), err)
	}
	b.node.wire.Cut(true)
	if err := t.until(t.TTL, "the reign to end", func() bool { return l.Context().Err() != nil && !l.Leading() }); err != nil {
		return err
	}
	b.node.wire.Cut(false)
	t.sleep(t.TTL)
	if err := must(!b.Leading(), "no second reign before the first is resigned", b.Current()); err != nil {
		return err
	}
	again, stop := t.ctx()
	defer stop()
	if err := l.Resign(again); err != nil {
		return fmt.Errorf("resign after a loss: expected nil, got %w", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), t.bound())
	defer cancel()
	second, err := b.Campaign(ctx)
	if err != nil || second.Term <= l.Term {
		return fmt.Errorf("campaign again: expected a leadership above term %d, got %v and error %v", l.Term, show(second), err)
	}
	return nil
}

func operatorRun(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, a.noted(nil)) }()
	defer cancel()
	for i := range 3 {
		if _, _, err := t.elected(2*t.bound(), a); err != nil {
			return fmt.Errorf("reign %d: %w", i, err)
		}
		a.node.wire.Cut(true)
		if err := t.until(t.TTL, "the reign to end", func() bool { return !a.Leading() }); err != nil {
			return err
		}
		a.node.wire.Cut(false)
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	cancel()
	err, ok := within(ended, t.TTL/2+t.Late)
	if !ok || err != nil {
		return fmt.Errorf("a Run after its context ended: expected nil within %v, got %v (returned: %v)", t.TTL/2, err, ok)
	}
	now, err := t.client("reader").look("jobs")
	t.sleep(2 * t.TTL)
	return errors.Join(err, must(now.Vacant(), "a released lease when Run returns", now), must(a.runs() >= 4, "the function to be called in each reign", a.runs()),
		must(!a.Leading(), "no campaign after Run has returned", a.Current()))
}

func operatorLeave(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	n, b := a.node, others[0]
	if _, err := n.Join("jobs"); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("joining twice: expected ErrInvalid, got %v", err)
	}
	if _, err := n.Join("a\x00b"); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("joining an impossible name: expected ErrInvalid, got %v", err)
	}
	for i := range 3 {
		if err := a.leaves(); err != nil {
			return err
		}
		now, err := t.client("reader").look("jobs")
		if err := errors.Join(err, must(now.Holder.ID != "a" || now.Holder.Nonce != n.wire.Nonce(), "nothing of this process to be left in the store when Leave returns", now),
			must(n.Election("jobs") == nil, "the election to be forgotten", n.Election("jobs"))); err != nil {
			return err
		}
		if err := a.Lead(nil); !errors.Is(err, backend.ErrClosed) {
			return fmt.Errorf("a Lead after Leave: expected ErrClosed, got %v", err)
		}
		if a, err = n.join("jobs"); err != nil {
			return err
		}
		if err := a.lead(); err != nil {
			return err
		}
		if _, _, err := t.elected(t.bound(), a, b); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	b.Pause()
	_, _, err = t.elected(t.bound(), a)
	return err
}
