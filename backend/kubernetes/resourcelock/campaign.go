package resourcelock

import (
	"context"
	"errors"
	"time"

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

func (l *Lock) endCampaign() {
	if l.cancel != nil {
		l.cancel()
	}
}

// hold is the lead function. Until it returns, the manager does not release the lease: so it returns when the elector
// has stopped, and its work has had time to end.
func (l *Lock) hold(ctx context.Context, lead *election.Leadership) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := l.timings.LeaseDuration + 3*l.timings.RetryPeriod // an elector that still asks does so by then
	l.lead, l.over, l.keepUntil = lead, false, time.Now().Add(claim)
	l.changed()
	for {
		wait, done := l.pending(ctx)
		if done {
			break
		}
		ended := ctx.Done()
		if ctx.Err() != nil {
			ended = nil
			l.endCampaign() // before this function returns: else the process would bid again
		}
		l.await(ended, time.After(wait))
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
	if ended || kept <= 0 {
		l.over = true
	}
	switch believed := l.until.Sub(now); {
	case !l.over:
		return kept, false
	case l.lent == l.lead && believed > 0:
		return believed, false
	case ended && l.lent == l.lead && kept > 0 && !left(ctx):
		return kept, false // the elector has stopped, but who knows about its work?
	}
	return 0, true
}

// left reports whether the program itself has closed the manager, or left the election.
func left(ctx context.Context) bool {
	var end *election.EndError
	return errors.As(context.Cause(ctx), &end) && end.Reason == election.ReasonLeft
}
