package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// The cases P8 to P11: Try, Campaign, Run and Leave.

func operatorTry(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	try := func() (*election.Leadership, error) {
		ctx, cancel := t.callContext()
		defer cancel()
		return b.Try(ctx)
	}
	for range 2 {
		if l, err := try(); !errors.Is(err, election.ErrNotElected) || l != nil {
			return fmt.Errorf("try while another process leads: expected ErrNotElected, got %v and %v", format(l), err)
		}
	}
	a.watcherEnded = true
	if err := a.node.close(t.TTL); err != nil {
		return err
	}
	l, err := try()
	if err != nil || l == nil || !l.Leading() {
		return fmt.Errorf("try for a free lease: expected a leadership, got %v and error %v", format(l), err)
	}
	t.sleep(2 * t.TTL)
	if err := expect(l.Leading(), "the manager to renew the lease", b.events()); err != nil {
		return err
	}
	ctx, cancel := t.callContext()
	defer cancel()
	if err := l.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
	}
	t.sleep(2 * t.TTL)
	now, err := t.client("reader").read("jobs")
	return errors.Join(err, expect(!b.Leading() && now.Vacant(), "no campaign after Resign", now))
}

func operatorCampaign(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.TTL)
	l, err := b.Campaign(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) || l != nil {
		return fmt.Errorf("campaign while another process leads: expected the context's error, got %v and %v", format(l), err)
	}
	a.Pause()
	t.sleep(t.TTL)
	if err := expect(!b.Leading(), "no campaign after the context has ended", b.Current()); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), t.takeoverBound())
	defer cancel()
	if l, err = b.Campaign(ctx); err != nil || l == nil || !l.Leading() {
		return fmt.Errorf("campaign for a free lease: expected a leadership, got %v and error %v", format(l), err)
	}
	b.node.wire.Cut(true)
	if err := t.waitUntil(t.TTL, "the leadership to end", func() bool { return l.Context().Err() != nil && !l.Leading() }); err != nil {
		return err
	}
	b.node.wire.Cut(false)
	t.sleep(t.TTL)
	if err := expect(!b.Leading(), "no second leadership before Resign of the first", b.Current()); err != nil {
		return err
	}
	again, stop := t.callContext()
	defer stop()
	if err := l.Resign(again); err != nil {
		return fmt.Errorf("resign after a loss: expected nil, got %w", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), t.takeoverBound())
	defer cancel()
	second, err := b.Campaign(ctx)
	if err != nil || second.Term <= l.Term {
		return fmt.Errorf("campaign again: expected a leadership above term %d, got %v and error %v", l.Term, format(second), err)
	}
	return nil
}

func operatorRun(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, a.recordRuns(nil)) }()
	defer cancel()
	for i := range 3 {
		if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
			return fmt.Errorf("leadership %d: %w", i, err)
		}
		a.node.wire.Cut(true)
		if err := t.waitUntil(t.TTL, "the leadership to end", func() bool { return !a.Leading() }); err != nil {
			return err
		}
		a.node.wire.Cut(false)
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	cancel()
	err, ok := t.waitForResult(ended, t.TTL/2+t.Late)
	if !ok || err != nil {
		return fmt.Errorf("expected nil from Run within %v after its context ended, got %v (returned: %v)", t.TTL/2, err, ok)
	}
	now, err := t.client("reader").read("jobs")
	t.sleep(2 * t.TTL)
	return errors.Join(err, expect(now.Vacant(), "a released lease when Run returns", now), expect(a.runs() >= 4, "the function to be called in each leadership", a.runs()),
		expect(!a.Leading(), "no campaign after Run has returned", a.Current()))
}

func operatorLeave(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	n, b := a.node, others[0]
	if _, err := n.Join("jobs"); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("joining twice: expected ErrInvalid, got %v", err)
	}
	if _, err := n.Join("a\x00b"); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("joining an invalid name: expected ErrInvalid, got %v", err)
	}
	for i := range 3 {
		if err := a.leave(); err != nil {
			return err
		}
		now, err := t.client("reader").read("jobs")
		if err := errors.Join(err, expect(now.Holder.ID != n.ID(), "nothing of this process in the store when Leave returns", now),
			expect(n.Election("jobs") == nil, "the election to be removed from the manager", n.Election("jobs"))); err != nil {
			return err
		}
		if err := a.Lead(nil); !errors.Is(err, backend.ErrClosed) {
			return fmt.Errorf("expected ErrClosed from Lead after Leave, got %v", err)
		}
		if a, err = n.join("jobs"); err != nil {
			return err
		}
		if err := a.lead(); err != nil {
			return err
		}
		if _, _, err := t.waitForLeader(t.takeoverBound(), a, b); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	b.Pause()
	_, _, err = t.waitForLeader(t.takeoverBound(), a)
	return err
}

func marksEndCampaigns(t *Trial) error {
	c := t.client("c")
	held, err := c.win("jobs")
	if err != nil {
		return err
	}
	if held, err = c.mark(held, "there", ""); err != nil {
		return err
	}
	if err := c.release(backend.Released, held); err != nil {
		return err
	}
	p, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := p.lead(); err != nil {
		return err
	}
	if err := t.waitUntil(t.takeoverBound(), "the manager to report that the election has moved", func() bool {
		now := p.Current()
		return now.Kind == election.Vacant && now.Reason == election.ReasonMoved && now.Err != nil
	}); err != nil {
		return err
	}
	t.sleep(2 * t.TTL)
	return expect(!p.Leading() && p.runs() == 0, "no leader of an election that has moved", p.Current())
}
