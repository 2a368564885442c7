package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

var functionCases = []Case{
	{Rule: "S11", Name: "a function that ignores its context", Run: functionIgnores,
		Says: "The lead function of term n has returned before the same process bids again. The manager reports a function that ignores its context."},
	{Rule: "S11", Name: "the function returns before the release", Run: functionReturnsFirst,
		Says: "A leader that steps down stops leading, cancels the function's context, renews until the function has returned, and then releases the lease. No other process leads before that."},
	{Rule: "S11", Name: "Close waits for the function", Run: functionClose,
		Says: "The lead function has returned before Close returns."},
	{Rule: "S11", Name: "a leader whose function returns resigns", Run: functionReturns,
		Says: "When the lead function returns, the leader steps down, and the process campaigns again."},
	{Rule: "S11", Name: "the context's cause names the reason", Run: functionCause,
		Says: "The end of a leadership cancels its context, and context.Cause returns an *EndError with the reason."},
}

func functionIgnores(t *Trial) error {
	a, err := t.participant("a", "jobs", func(o *election.Options) { o.StepDownTimeout = t.TTL })
	if err != nil {
		return err
	}
	unblock := make(chan struct{})
	var once atomic.Bool
	defer func() {
		if once.CompareAndSwap(false, true) {
			close(unblock)
		}
	}()
	if err := a.leadWith(func(ctx context.Context, _ *election.Leadership) error {
		if <-unblock; a.runs() > 1 {
			<-ctx.Done()
		}
		return nil
	}); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	a.node.wire.Cut(true)
	if _, _, err := t.waitForLeader(t.takeoverBound(), b); err != nil {
		return fmt.Errorf("beside a stuck function: %w", err)
	}
	a.node.wire.Cut(false)
	if err := t.waitUntil(2*t.TTL, "a notice that the function is stuck", func() bool {
		return a.hasEvent(func(e election.Event) bool { return e.Kind == election.Notice && e.Reason == election.ReasonStuck })
	}); err != nil {
		return err
	}
	if err := b.node.close(2 * t.TTL); err != nil { // a is the only candidate now
		return err
	}
	b.watcherEnded = true
	t.sleep(3 * t.TTL)
	if err := errors.Join(expect(!a.Leading(), "no second leadership while the first function runs", a.Current()), equal("calls of the function", a.runs(), 1)); err != nil {
		return err
	}
	once.Store(true)
	close(unblock)
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return fmt.Errorf("after the function has returned: %w", err)
	}
	return nil
}

func functionReturnsFirst(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	drain := t.TTL * 3 / 2 // longer than the lease lasts without a renewal
	var returned atomic.Int64
	if err := a.leadWith(func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		time.Sleep(drain)
		returned.Store(int64(t.now()))
		return nil
	}); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	began := t.now()
	ctx, cancel := context.WithTimeout(context.Background(), 3*t.TTL)
	defer cancel()
	if err := a.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
	}
	if _, _, err := t.waitForLeader(t.handoverBound(), b); err != nil {
		return fmt.Errorf("after the function had returned: %w", err)
	}
	won, _ := b.eventTime(func(e election.Event) bool { return e.Leading })
	lost, _ := a.eventTime(func(e election.Event) bool { return e.Reason == election.ReasonResigned })
	back := time.Duration(returned.Load())
	return errors.Join(
		expect(back >= began+drain, fmt.Sprintf("Resign to wait until the function returns at %v", began+drain), back),
		expect(won >= back, fmt.Sprintf("no next leader before the function returned at %v", back), won),
		expect(lost < began+t.TTL/10+t.Late, fmt.Sprintf("the leader to stop leading at once, at %v", began), lost))
}

func functionClose(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	var returned atomic.Bool
	if err := a.leadWith(func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		time.Sleep(t.TTL / 2)
		returned.Store(true)
		return nil
	}); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	a.watcherEnded = true
	if err := a.node.close(2 * t.TTL); err != nil {
		return err
	}
	now, err := t.client("reader").read("jobs")
	return errors.Join(err, expect(returned.Load(), "the function to have returned when Close returns", returned.Load()), expect(now.Vacant(), "a released lease", now))
}

func functionReturns(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := a.leadWith(func(ctx context.Context, l *election.Leadership) error {
		time.Sleep(t.TTL / 2)
		return errors.New("the work is done")
	}); err != nil {
		return err
	}
	if err := t.waitUntil(4*t.takeoverBound(), "a third leadership", func() bool { return a.runs() >= 3 }); err != nil {
		return err
	}
	return t.waitForEvent(a, "the event that the function returned", func(e election.Event) bool { return e.Reason == election.ReasonReturned })
}

func functionCause(t *Trial) error {
	a, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	causes := make(chan error, 10)
	if err := a.leadWith(func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		if l.Leading() {
			t.addError(errors.New("expected Leading() false when the context is cancelled, got true"))
		}
		causes <- context.Cause(ctx)
		return nil
	}); err != nil {
		return err
	}
	for _, s := range []struct {
		reason election.Reason
		do     func() error
	}{
		{election.ReasonPaused, func() error { a.Pause(); return nil }},
		{election.ReasonUnreachable, func() error { a.node.wire.Cut(true); return nil }},
		{election.ReasonDeposed, func() error { return t.depose(a) }},
	} {
		a.node.wire.Cut(false)
		a.Resume()
		if _, _, err := t.waitForLeader(3*t.takeoverBound(), a); err != nil {
			return err
		}
		t.sleep(t.renewEvery())
		leadership, err := t.waitForLeadership(3*t.takeoverBound(), a)
		if err != nil {
			return err
		}
		for len(causes) > 0 { // from leaderships that a busy machine has ended
			<-causes
		}
		if err := s.do(); err != nil {
			return err
		}
		cause, ok := t.waitForResult(causes, t.takeoverBound()+t.Late)
		var end *election.EndError
		if !ok || !errors.As(cause, &end) || end.Reason != s.reason || end.Term != leadership.Term || end.Election != "jobs" {
			return fmt.Errorf("expected an EndError of term %d with reason %q, got %v (cancelled: %v)", leadership.Term, s.reason, cause, ok)
		}
	}
	a.node.wire.Cut(false)
	return nil
}
