package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var operatorCases = []Case{
	{Rule: "V5", Name: "no manager campaigns for a moved election", run: marksEndCampaigns, needs: []need{marks},
		Says: "A manager makes no bid for an election that has moved to another store, and reports that to its watchers."},
	{Rule: "P1", Name: "pause and resume", run: operatorPause,
		Says: "Pause makes this process step down, and it does not campaign until Resume, in one election or in all."},
	{Rule: "P2", Name: "a candidate waits half a TTL after it resigned", run: operatorResign,
		Says: "A candidate that resigned campaigns again after half a TTL. If it is alone, it then leads again in a new term."},
	{Rule: "P3", Name: "an unhealthy node steps down and stays out", run: operatorHealth,
		Says: "If its health check fails, a process steps down in all elections and does not campaign until the check passes."},
	{Rule: "P3", Name: "a health check that hangs counts as failed", run: operatorHealthHangs,
		Says: "A health check that does not return by the end of its context counts as failed."},
	{Rule: "P4", Name: "an observer never writes", run: operatorObserver,
		Says: "An observer never campaigns and never writes to the store, but receives all events."},
	{Rule: "P5", Name: "FailoverDelay delays a takeover", run: operatorFailoverDelay,
		Says: "After a leader has failed there is no leader for FailoverDelay. After an orderly release there is no delay."},
	{Rule: "P6", Name: "IncumbentGrace lets the failed leader return", run: operatorIncumbentGrace,
		Says: "After a leader has failed, the other candidates wait for IncumbentGrace, so that a candidate with the failed leader's ID can return. After an orderly release they do not wait."},
	{Rule: "P7", Name: "two processes with one id are reported", run: operatorSameID,
		Says: "Two live processes with the same ID are two candidates, and the manager reports them."},
	{Rule: "P8", Name: "Try makes one attempt", run: operatorTry,
		Says: "Try makes one attempt. It returns nil and ErrNotElected if another process leads. Resign ends the leadership that Try returned, and the process does not campaign afterwards."},
	{Rule: "P9", Name: "Campaign returns when elected", run: operatorCampaign,
		Says: "Campaign returns when this process is elected, or with the context's error. After that the process does not campaign."},
	{Rule: "P11", Name: "an election can be left and joined again", run: operatorLeave,
		Says: "Leave resigns and removes the election from the manager. When it returns, the store holds nothing of this process. The process can join the election again."},
}

func operatorPause(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	a.Pause()
	t.waitUntil(t.handoverBound(), "the other candidate to lead after a pause", b.Leading)
	b.node.Pause()
	t.sleep(2 * t.TTL)
	require(expect(leaderOf([]*participant{a, b}) == nil, fmt.Sprint(a.Current(), b.Current()), "no leader while all candidates are paused"))
	a.Resume()
	t.waitUntil(t.handoverBound()+t.renewEvery(), "the resumed candidate to lead", a.Leading)
	b.node.Resume()
	t.sleep(t.TTL)
	require(expect(a.Leading() && !b.Leading(), fmt.Sprint(a.Current(), b.Current()), "a resumed follower not to replace the leader"),
		expect(a.told(election.ReasonPaused), a.events(), "an event with reason paused"))
}

func operatorResign(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	term := a.Leadership().Term
	t.resign(a)
	now := t.client("reader").read("jobs")
	require(expect(now.Vacant() && now.End == backend.Released, now, "a released lease when Resign returns"))
	took := t.waitUntil(t.TTL, "the only candidate to lead again", a.Leading)
	require(expect(took >= t.TTL/2-t.TTL/20, took, "the candidate not to lead for %v", t.TTL/2))
	again := a.Leadership()
	require(expect(again.Term > term, again, "a term above %d", term))
	t.resign(t.participant("b", "jobs", nil)) // a follower's Resign does nothing
}

func operatorHealth(t *Trial) {
	var unhealthy atomic.Bool
	a := t.leader("a", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if unhealthy.Load() {
				return errors.New("this node is unhealthy")
			}
			return nil
		}
	}, nil)
	b := t.candidate("b", "jobs", nil)
	t.sleep(t.TTL)
	unhealthy.Store(true)
	t.waitUntil(t.renewEvery()+t.handoverBound(), "the other candidate to lead after the health check has failed", b.Leading)
	t.waitUntil(t.TTL/10, "an event with reason health", func() bool { return a.told(election.ReasonHealth) })
	b.Pause()
	t.sleep(2 * t.TTL)
	require(expect(!a.Leading(), a.Current(), "an unhealthy node not to lead"))
	unhealthy.Store(false)
	t.waitUntil(2*t.renewEvery()+t.handoverBound(), "the node to lead when it is healthy again", a.Leading)
}

func operatorHealthHangs(t *Trial) {
	var hangs atomic.Bool
	unblock := make(chan struct{})
	defer close(unblock)
	a := t.leader("a", func(o *election.Options) {
		o.Health = func(context.Context) error {
			if hangs.Load() {
				<-unblock
			}
			return nil
		}
	}, nil)
	hangs.Store(true)
	limit := t.renewEvery() + t.callTimeout() + t.TTL/20
	t.waitUntil(limit, "a leader whose health check hangs to step down", func() bool { return a.told(election.ReasonHealth) })
}

func operatorObserver(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	o := t.participant("observer", "jobs", func(o *election.Options) { o.Observer = true })
	if err := o.Lead(nil); !errors.Is(err, backend.ErrInvalid) {
		fail("expected ErrInvalid from Lead of an observer, got %v", err)
	}
	o.Pause()
	o.Resume()
	t.sleep(2 * t.TTL)
	a.node.crash()
	next, _ := t.waitForLeader(t.takeoverBound(), others...)
	t.waitUntil(t.takeoverBound(), "the observer to know the new leader", func() bool {
		leader, _, ok := o.Leader()
		return ok && leader.ID == next.node.ID()
	})
	o.end(t.TTL)
	writes := o.node.wire.Count("Acquire", "Renew", "Release", "Request", "Announce")
	require(equal(writes, 0, "writes of an observer"))
}

func operatorFailoverDelay(t *Trial) {
	failoverDelay := t.TTL
	leader, others := t.startWithLeader(3, "jobs", func(o *election.Options) { o.FailoverDelay = failoverDelay })
	t.sleep(t.TTL)
	failed := leader.node.lastGrantSent("jobs") + t.TTL
	leader.node.crash()
	next, _ := t.waitForLeader(t.takeoverBound()+failoverDelay, others...)
	won := next.wonAt()
	require(expect(won >= failed+failoverDelay, won, "no leader before %v: the last leadership failed at %v, and FailoverDelay is %v", failed+failoverDelay, failed, failoverDelay))
	t.sleep(t.TTL)
	next.Pause() // an orderly release: no failover delay
	rest := slices.DeleteFunc(others, func(p *participant) bool { return p == next })
	t.waitUntil(t.handoverBound(), "the next leader after an orderly release, without failover delay", func() bool { return leaderOf(rest) != nil })
}

func operatorIncumbentGrace(t *Trial) {
	incumbentGrace := t.TTL
	with := func(o *election.Options) { o.IncumbentGrace = incumbentGrace }
	a, others := t.startWithLeader(2, "jobs", with)
	id, b := a.node.ID(), others[0]
	a.node.crash()
	back := t.candidate(id, "jobs", with) // started again at once
	next, _ := t.waitForLeader(t.takeoverBound(), back, b)
	require(expect(next == back, next.node.key, "the candidate with the failed leader's id to return"))
	t.sleep(t.TTL)
	failed := back.node.lastGrantSent("jobs") + t.TTL
	back.node.crash() // this time it does not return
	t.waitForLeader(t.takeoverBound()+incumbentGrace, b)
	won := b.wonAt()
	require(expect(won >= failed+incumbentGrace, won, "no other leader before %v: the last leadership failed at %v, and IncumbentGrace is %v", failed+incumbentGrace, failed, incumbentGrace))
}

func operatorSameID(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	twin := t.candidate("a", "jobs", nil)
	// Where renewals are invisible, the record may be of a dead predecessor for a while.
	t.waitUntil(2*t.TTL, "a notice that another process has the same id, with that id", func() bool {
		return twin.hasEvent(func(e election.Event) bool {
			return e.Kind == election.Notice && e.Reason == election.ReasonSameID && e.Err != nil && strings.Contains(e.Err.Error(), strconv.Quote("a"))
		})
	})
	require(expect(a.Leading() && !twin.Leading(), fmt.Sprint(a.Current(), twin.Current()), "only the first of two processes with one id to lead"))
	a.node.crash()
	t.waitForLeader(t.takeoverBound(), twin)
}
