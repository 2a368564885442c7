package resourcelock

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/go-election/go-election/election"
)

// start begins a campaign: one call of Run, whose leadership the lock lends. It ends when the
// leadership ends, or when the elector no longer asks.
func (l *Lock) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer cancel()
		err := l.election.Run(ctx, l.hold)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel = nil
		if notable(err) {
			l.err = err
		}
		l.changed()
	}()
}

// withdraw ends the campaign, because the elector stops asking.
func (l *Lock) withdraw() {
	l.reported = ""
	if !l.believing {
		l.endCampaign()
	}
}

func (l *Lock) endCampaign() {
	if l.cancel != nil {
		l.cancel()
	}
}

// hold is the lead function. Until it returns, the manager does not release the lease: so it
// returns when the elector has stopped, and its work with it.
func (l *Lock) hold(ctx context.Context, lead *election.Leadership) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := l.timings.LeaseDuration + 3*l.timings.RetryPeriod // an elector that still asks does so by then
	l.lead, l.over, l.released, l.keepUntil = lead, false, false, time.Now().Add(claim)
	l.changed()
	for {
		wait, done := l.pending(ctx)
		if done {
			break
		}
		ended, wake := ctx.Done(), l.wake
		if ctx.Err() != nil {
			ended = nil
			l.endCampaign() // before this function returns: else the process would bid again
		}
		timer := time.NewTimer(wait)
		l.mu.Unlock()
		select {
		case <-ended:
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
		l.mu.Lock()
	}
	l.lead = nil
	l.endCampaign() // the elector's next Get begins another
	l.changed()
	return nil
}

// pending reports for how long hold must wait before it looks again, or that all is done.
func (l *Lock) pending(ctx context.Context) (wait time.Duration, done bool) {
	now := time.Now()
	kept := l.keepUntil.Sub(now)
	ended := ctx.Err() != nil
	if ended || l.wrapped && l.released || !l.running && kept <= 0 {
		l.over = true
	}
	switch believed := l.until.Sub(now); {
	case l.running:
		return 1 << 62, false // its end is a change
	case !l.over:
		return kept, false
	case l.lent == l.lead && believed > 0:
		return believed, false
	case ended && !l.wrapped && l.lent == l.lead && kept > 0 && !left(ctx):
		return kept, false // the elector has stopped, but who knows about its work?
	}
	return 0, true
}

// left reports whether the program itself has closed the manager, or left the election.
func left(ctx context.Context) bool {
	var end *election.EndError
	return errors.As(context.Cause(ctx), &end) && end.Reason == election.ReasonLeft
}

// Config returns the configuration of an elector with the lock's timings and with these
// callbacks. The lock then knows when OnStartedLeading has returned, and releases the lease after
// that: OnStartedLeading must not return before its work has ended. Its context also ends with
// the leadership, possibly some moments before client-go cancels it; the cause is then an
// *election.EndError. Without ReleaseOnCancel, which Config sets, the lease is kept for one TTL
// after the elector has stopped, as it is if OnStoppedLeading ends the process. Call Config once,
// and change none of the timings.
func (l *Lock) Config(callbacks leaderelection.LeaderCallbacks) leaderelection.LeaderElectionConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrapped = true
	if work := callbacks.OnStartedLeading; work != nil {
		callbacks.OnStartedLeading = func(ctx context.Context) { l.work(ctx, work) }
	}
	if after := callbacks.OnStoppedLeading; after != nil {
		callbacks.OnStoppedLeading = func() {
			l.mu.Lock()
			l.stopped(0)
			l.mu.Unlock()
			after()
		}
	}
	return leaderelection.LeaderElectionConfig{
		Lock: l, Name: l.election.Name(), ReleaseOnCancel: true, Callbacks: callbacks,
		LeaseDuration: l.timings.LeaseDuration, RenewDeadline: l.timings.RenewDeadline, RetryPeriod: l.timings.RetryPeriod,
	}
}

// work calls OnStartedLeading and records its end.
func (l *Lock) work(ctx context.Context, work func(context.Context)) {
	defer func() { // work may end its goroutine
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = false
		l.changed()
	}()
	l.mu.Lock()
	lead := l.lent.Context()
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(lead, func() { cancel(context.Cause(lead)) })()
	work(ctx)
}
