package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var operatorCases = []Case{
	{Rule: "V5", Name: "no manager campaigns for a moved election", Run: marksEndCampaigns, skip: needsMarks,
		Says: "A manager makes no bid for an election that has moved to another store, and reports that to its watchers."},
	{Rule: "P1", Name: "pause and resume", Run: operatorPause,
		Says: "Pause makes this process step down, and it does not campaign until Resume, in one election or in all."},
	{Rule: "P2", Name: "a candidate waits half a TTL after it resigned", Run: operatorResign,
		Says: "A candidate that resigned campaigns again after half a TTL. If it is alone, it then leads again in a new term."},
	{Rule: "P3", Name: "an unhealthy node steps down and stays out", Run: operatorHealth,
		Says: "If its health check fails, a process steps down in all elections and does not campaign until the check passes."},
	{Rule: "P3", Name: "a health check that hangs counts as failed", Run: operatorHealthHangs,
		Says: "A health check that does not return by the end of its context counts as failed."},
	{Rule: "P4", Name: "an observer never writes", Run: operatorObserver,
		Says: "An observer never campaigns and never writes to the store, but receives all events."},
	{Rule: "P5", Name: "FailoverDelay delays a takeover", Run: operatorFailoverDelay,
		Says: "After a leader has failed there is no leader for FailoverDelay. After an orderly release there is no delay."},
	{Rule: "P6", Name: "IncumbentGrace lets the failed leader return", Run: operatorIncumbentGrace,
		Says: "After a leader has failed, the other candidates wait for IncumbentGrace, so that a candidate with the failed leader's ID can return. After an orderly release they do not wait."},
	{Rule: "P7", Name: "two processes with one id are reported", Run: operatorSameID,
		Says: "Two live processes with the same ID are two candidates, and the manager reports them."},
	{Rule: "P8", Name: "Try makes one attempt", Run: operatorTry,
		Says: "Try makes one attempt. It returns nil and ErrNotElected if another process leads. Resign ends the leadership that Try returned, and the process does not campaign afterwards."},
	{Rule: "P9", Name: "Campaign returns when elected", Run: operatorCampaign,
		Says: "Campaign returns when this process is elected, or with the context's error. After that the process does not campaign."},
	{Rule: "P10", Name: "Run campaigns again after every loss", Run: operatorRun,
		Says: "Run campaigns, calls the function, waits for it and campaigns again, until its context ends. Then it releases the lease and returns nil."},
	{Rule: "P11", Name: "an election can be left and joined again", Run: operatorLeave,
		Says: "Leave resigns and removes the election from the manager. When it returns, the store holds nothing of this process. The process can join the election again."},
}

func operatorPause(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	a.Pause()
	if _, err := t.waitTime(t.handoverBound(), "the other candidate to lead after a pause", b.Leading); err != nil {
		return err
	}
	b.node.Pause()
	t.sleep(2 * t.TTL)
	if err := expect(leaderOf([]*participant{a, b}) == nil, "no leader while all candidates are paused", fmt.Sprint(a.Current(), b.Current())); err != nil {
		return err
	}
	a.Resume()
	if _, err := t.waitTime(t.handoverBound()+t.renewEvery(), "the resumed candidate to lead", a.Leading); err != nil {
		return err
	}
	b.node.Resume()
	t.sleep(t.TTL)
	return errors.Join(expect(a.Leading() && !b.Leading(), "a resumed follower not to replace the leader", fmt.Sprint(a.Current(), b.Current())),
		expect(a.hasEvent(func(e election.Event) bool { return e.Reason == election.ReasonPaused }), "an event with reason paused", a.events()))
}

func operatorResign(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	first, err := t.waitForLeadership(t.takeoverBound(), a)
	if err != nil {
		return err
	}
	term := first.Term
	ctx, cancel := t.callContext()
	defer cancel()
	began := time.Now()
	if err := a.Resign(ctx); err != nil {
		return fmt.Errorf("resign: expected nil, got %w", err)
	}
	now, err := t.client("reader").read("jobs")
	if time.Since(began) < t.TTL/2 { // a busy machine may read too late
		err = errors.Join(err, expect(now.Vacant() && now.End == backend.Released, "a released lease when Resign returns", now))
	}
	if err != nil {
		return err
	}
	took, err := t.waitTime(t.TTL, "the only candidate to lead again", a.Leading)
	if err := errors.Join(err, expect(took >= t.TTL/2-t.TTL/20-t.Late, fmt.Sprintf("the candidate not to lead for %v", t.TTL/2), took)); err != nil {
		return err
	}
	if again, err := t.waitForLeadership(t.takeoverBound(), a); err != nil || again.Term <= term {
		return errors.Join(err, fmt.Errorf("expected a term above %d, got %v", term, format(again)))
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.Resign(ctx); err != nil { // a follower's Resign does nothing
		return fmt.Errorf("resign of a follower: expected nil, got %w", err)
	}
	return nil
}

func operatorHealth(t *Trial) error {
	var unhealthy atomic.Bool
	a, err := t.participant("a", "jobs", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if unhealthy.Load() {
				return errors.New("this node is unhealthy")
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
	unhealthy.Store(true)
	if _, err := t.waitTime(t.renewEvery()+t.handoverBound(), "the other candidate to lead after the health check has failed", b.Leading); err != nil {
		return err
	}
	if err := t.waitForEvent(a, "an event with reason health", func(e election.Event) bool { return e.Reason == election.ReasonHealth }); err != nil {
		return err
	}
	b.Pause()
	t.sleep(2 * t.TTL)
	if err := expect(!a.Leading(), "an unhealthy node not to lead", a.Current()); err != nil {
		return err
	}
	unhealthy.Store(false)
	_, err = t.waitTime(2*t.renewEvery()+t.handoverBound(), "the node to lead when it is healthy again", a.Leading)
	return err
}

func operatorHealthHangs(t *Trial) error {
	var hangs atomic.Bool
	unblock := make(chan struct{})
	a, err := t.participant("a", "jobs", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if hangs.Load() {
				<-unblock
			}
			return nil
		}
	})
	if err != nil {
		close(unblock)
		return err
	}
	defer close(unblock)
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	hangs.Store(true)
	limit := t.renewEvery() + t.callTimeout() + t.TTL/20
	return t.waitUntil(limit, "a leader whose health check hangs to step down", func() bool {
		return a.hasEvent(func(e election.Event) bool { return e.Reason == election.ReasonHealth })
	})
}

func operatorObserver(t *Trial) error {
	a, others, err := t.startWithLeader(2, "jobs", nil)
	if err != nil {
		return err
	}
	o, err := t.participant("observer", "jobs", func(o *election.Options) { o.Observer = true })
	if err != nil {
		return err
	}
	if err := o.Lead(nil); !errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("expected ErrInvalid from Lead of an observer, got %v", err)
	}
	t.sleep(2 * t.TTL)
	a.node.crash()
	next, _, err := t.waitForLeader(t.takeoverBound(), others...)
	if err != nil {
		return err
	}
	if err := t.waitUntil(t.takeoverBound(), "the observer to know the new leader", func() bool {
		leader, _, ok := o.Leader()
		return ok && leader.ID == next.node.ID()
	}); err != nil {
		return err
	}
	o.watcherEnded = true
	if err := o.node.close(t.TTL); err != nil {
		return err
	}
	writes := o.node.wire.Count("Acquire", "Renew", "Release", "Request", "Announce")
	return equal("writes of an observer", writes, 0)
}

func operatorFailoverDelay(t *Trial) error {
	failoverDelay := t.TTL
	leader, others, err := t.startWithLeader(3, "jobs", func(o *election.Options) { o.FailoverDelay = failoverDelay })
	if err != nil {
		return err
	}
	t.sleep(t.TTL)
	failed := leader.node.lastGrantSent("jobs") + t.TTL
	leader.node.crash()
	next, _, err := t.waitForLeader(t.takeoverBound()+failoverDelay, others...)
	if err != nil {
		return err
	}
	won, _ := next.eventTime(func(e election.Event) bool { return e.Leading })
	if err := expect(won >= failed+failoverDelay, fmt.Sprintf("no leader before %v: the last leadership failed at %v, and FailoverDelay is %v", failed+failoverDelay, failed, failoverDelay), won); err != nil {
		return err
	}
	t.sleep(t.TTL)
	next.Pause() // an orderly release: no failover delay
	rest := slices.DeleteFunc(others, func(p *participant) bool { return p == next })
	_, err = t.waitTime(t.handoverBound(), "the next leader after an orderly release, without failover delay", func() bool { return leaderOf(rest) != nil })
	return err
}

func operatorIncumbentGrace(t *Trial) error {
	incumbentGrace := t.TTL
	with := func(o *election.Options) { o.IncumbentGrace = incumbentGrace }
	a, others, err := t.startWithLeader(2, "jobs", with)
	if err != nil {
		return err
	}
	id, b := a.node.ID(), others[0]
	a.node.crash()
	back, err := t.participant(id, "jobs", with) // started again at once
	if err != nil {
		return err
	}
	if err := back.lead(); err != nil {
		return err
	}
	next, _, err := t.waitForLeader(t.takeoverBound(), back, b)
	if err != nil {
		return err
	}
	if err := expect(next == back, "the candidate with the failed leader's id to return", next.node.key); err != nil {
		return err
	}
	t.sleep(t.TTL)
	failed := back.node.lastGrantSent("jobs") + t.TTL
	back.node.crash() // this time it does not return
	if _, _, err := t.waitForLeader(t.takeoverBound()+incumbentGrace, b); err != nil {
		return err
	}
	won, _ := b.eventTime(func(e election.Event) bool { return e.Leading })
	return expect(won >= failed+incumbentGrace, fmt.Sprintf("no other leader before %v: the last leadership failed at %v, and IncumbentGrace is %v", failed+incumbentGrace, failed, incumbentGrace), won)
}

func operatorSameID(t *Trial) error {
	a, _, err := t.startWithLeader(1, "jobs", nil)
	if err != nil {
		return err
	}
	twin, err := t.participant("a", "jobs", nil)
	if err != nil {
		return err
	}
	if err := twin.lead(); err != nil {
		return err
	}
	// Where renewals are invisible, the record may be of a dead predecessor for a while.
	if err := t.waitUntil(2*t.TTL, "a notice that another process has the same id, with that id", func() bool {
		return twin.hasEvent(func(e election.Event) bool {
			return e.Kind == election.Notice && e.Reason == election.ReasonSameID && e.Err != nil && strings.Contains(e.Err.Error(), strconv.Quote("a"))
		})
	}); err != nil {
		return err
	}
	if err := expect(a.Leading() && !twin.Leading(), "only the first of two processes with one id to lead", fmt.Sprint(a.Current(), twin.Current())); err != nil {
		return err
	}
	a.node.crash()
	_, _, err = t.waitForLeader(t.takeoverBound(), twin)
	return err
}
