package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

var functionCases = []Case{
	{Rule: "S11", Name: "a function that ignores its context", run: functionIgnores,
		Says: "The lead function of term n has returned before the same process bids again. The manager reports a function that ignores its context."},
	{Rule: "S11", Name: "the function returns before the release", run: functionReturnsFirst,
		Says: "A leader that steps down stops leading, cancels the function's context, renews until the function has returned, and then releases the lease. No other process leads before that."},
	{Rule: "S11", Name: "the context's cause names the reason", run: functionCause,
		Says: "The end of a leadership cancels its context, and context.Cause returns an *EndError with the reason."},
}

func functionIgnores(t *Trial) {
	var runs atomic.Int64
	unblock := make(chan struct{})
	unblocked := sync.OnceFunc(func() { close(unblock) })
	defer unblocked()
	a := t.leader("a", func(o *election.Options) { o.StepDownTimeout = t.TTL }, func(ctx context.Context, _ *election.Leadership) error {
		runs.Add(1)
		<-unblock
		<-ctx.Done()
		return nil
	})
	b := t.candidate("b", "jobs", nil)
	t.sleep(t.TTL)
	a.node.wire.Cut(true)
	t.waitForLeader(t.takeoverBound(), b)
	a.node.wire.Cut(false)
	t.waitUntil(2*t.TTL, "a notice that the function is stuck", func() bool { return a.told(election.ReasonStuck) })

	b.end(2 * t.TTL) // a is the only candidate now
	t.sleep(3 * t.TTL)
	require(expect(!a.Leading(), a.Current(), "no second leadership while the first function runs"), equal(runs.Load(), 1, "calls of the function"))
	unblocked()
	t.waitForLeader(2*t.takeoverBound(), a)
}

func functionReturnsFirst(t *Trial) {
	drain := t.TTL * 3 / 2 // longer than the lease lasts without a renewal
	var returned atomic.Int64
	a := t.leader("a", nil, func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		time.Sleep(drain)
		returned.Store(int64(t.now()))
		return nil
	})
	b := t.candidate("b", "jobs", nil)
	t.sleep(t.TTL)

	began := t.now()
	require(a.Resign(context.Background()))
	t.waitForLeader(t.handoverBound(), b)
	lost, _ := a.eventTime(func(e election.Event) bool { return e.Reason == election.ReasonResigned })
	back := time.Duration(returned.Load())
	require(
		expect(back >= began+drain, back, "Resign to wait until the function returns at %v", began+drain),
		expect(b.wonAt() >= back, b.wonAt(), "no next leader before the function returned at %v", back),
		expect(lost < began+t.TTL/10, lost, "the leader to stop leading at once, at %v", began))
}

func functionCause(t *Trial) {
	causes := make(chan error, 10)
	a := t.leader("a", nil, func(ctx context.Context, l *election.Leadership) error {
		<-ctx.Done()
		if l.Leading() {
			t.addError(errors.New("expected Leading() false when the context is cancelled, got true"))
		}
		causes <- context.Cause(ctx)
		return nil
	})
	for reason, do := range map[election.Reason]func(){
		election.ReasonPaused:      a.Pause,
		election.ReasonUnreachable: func() { a.node.wire.Cut(true) },
		election.ReasonDeposed:     func() { t.depose(a) },
	} {
		a.node.wire.Cut(false)
		a.Resume()
		t.waitForLeader(3*t.takeoverBound(), a)
		term := a.Leadership().Term

		do()
		cause, ok := t.waitForResult(causes, t.takeoverBound())
		var end *election.EndError
		if !ok || !errors.As(cause, &end) || end.Reason != reason || end.Term != term || end.Election != "jobs" {
			fail("expected an EndError of term %d with reason %q, got %v (cancelled: %v)", term, reason, cause, ok)
		}
	}
	a.node.wire.Cut(false)
}
