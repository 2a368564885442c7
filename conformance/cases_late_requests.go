package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-election/go-election/election"
)

func safeNoRevival(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	old, err := t.waitForLeadership(t.takeoverBound(), a)
	if err != nil {
		return err
	}
	a.node.wire.Cut(true)
	t.waitForDeadline(a.node, "jobs")
	a.node.wire.Cut(false)
	now, err := t.waitForLeadership(2*t.takeoverBound(), a)
	if err != nil {
		return err
	}
	return errors.Join(expect(now.Term > old.Term, fmt.Sprintf("a term above %d after the leadership expired", old.Term), now),
		expect(!old.Leading(), "the old leadership not to come back", old.Leading()),
		expect(old.Context().Err() != nil, "its context to be cancelled", old.Context().Err()))
}

func safeLate(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	for _, p := range []*participant{a, b} {
		p.node.wire.Decide(func(c Call) Fate {
			if c.Method == "Renew" || c.Method == "Release" {
				return Fate{Again: t.TTL * 2 / 3}
			}
			return Fate{}
		})
	}
	for i := range 6 {
		leader, _, err := t.waitForLeader(t.takeoverBound(), a, b)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), t.takeoverBound())
		err = leader.Resign(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("resignation %d: expected nil, got %w", i, err)
		}
		t.sleep(t.TTL)
	}
	t.sleep(t.TTL)
	for _, p := range []*participant{a, b} {
		for _, e := range p.events() {
			late := e.Reason == election.ReasonDeadline || e.Reason == election.ReasonUnreachable // possible on a busy machine
			if e.Reason == election.ReasonRefused || late && t.Virtual {
				return fmt.Errorf("while requests arrive twice: expected leaderships to end only by resignation, got %v", e)
			}
		}
	}
	_, _, err = t.waitForLeader(t.takeoverBound(), a, b)
	return err
}

func safeUnknown(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	var lost atomic.Int64
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" && lost.Add(1) <= 3 {
			return Fate{AnswerLost: true}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if err := t.waitUntil(4*t.takeoverBound(), "three bids whose answers are lost, and a fourth", func() bool { return lost.Load() > 3 || a.Leading() }); err != nil {
		return err
	}
	if err := expect(lost.Load() > 3, "no leadership while the answers to all bids are lost", a.Current()); err != nil {
		return err
	}
	_, _, err = t.waitForLeader(t.takeoverBound(), a) // the checker compares the term with the granted answer
	return err
}

func safeOrphan(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	var late atomic.Bool
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" {
			late.Store(true)
			return Fate{Before: 3 * t.callTimeout()}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if err := t.waitUntil(2*t.takeoverBound(), "a bid", late.Load); err != nil {
		return err
	}
	a.Pause()
	t.sleep(3 * t.callTimeout()) // until the bid has arrived
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	if _, _, err = t.waitForLeader(2*t.takeoverBound(), b); err != nil {
		return fmt.Errorf("beside a paused candidate whose bid arrived late: %w", err)
	}
	return nil
}
