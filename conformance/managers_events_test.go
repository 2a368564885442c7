package conformance

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

var eventCases = []Case{
	{Rule: "S10", Name: "events are in order on every node", Run: eventsOrder,
		Says: "Each watcher's events are a path of the state machine: terms never decrease, no event comes twice, no transition of the watcher's own process is missing, and the last event equals the final state."},
	{Rule: "S10", Name: "a slow watcher receives all events of its process", Run: eventsSlow,
		Says: "However slow a watcher is, it receives all transitions of its own process in order. The manager may coalesce those of other processes."},
	{Rule: "S10", Name: "an unreachable store is an event", Run: eventsUnknown,
		Says: "A watcher receives an event when there is no leader, and when the manager cannot reach the store."},
	{Rule: "S10", Name: "an older term is never reported as a leader", Run: eventsTermGoesBack,
		Says: "If the store shows an older term than before, the manager reports that the store went back, and never reports the older term's leader."},
	{Rule: "S10", Name: "Manager.Watch reports every election", Run: eventsManager,
		Says: "Manager.Watch calls back at every change in every election that the manager has joined or joins later."},
	{Rule: "S10", Name: "an event carries the leader's address and metadata", Run: eventsCandidate,
		Says: "Every event and Leader() contain the leader's address and metadata."},
	{Rule: "S12", Name: "a watcher that hangs or panics delays nothing", Run: eventsBadWatchers,
		Says: "A callback that hangs or panics delays neither renewals nor other watchers."},
}

func eventsOrder(t *Trial) {
	members := t.startCandidates(3, "jobs", nil)
	o := t.participant("observer", "jobs", func(o *election.Options) { o.Observer = true })
	leaderships := 0
	for i := range 9 {
		leader, _ := t.waitForLeader(2*t.takeoverBound(), members...)
		t.sleep(t.renewEvery() * 3 / 2) // long enough for all members to read it
		leadership := leader.Leadership()
		t.waitUntil(0, "the observer's event for the leadership, or the end of the leadership", func() bool {
			return leadership == nil || !leadership.Leading() || o.hasEvent(func(e election.Event) bool { return e.Kind == election.Elected && e.Term == leadership.Term })
		})
		if leadership != nil && leadership.Leading() {
			leaderships++
		}
		switch i % 3 {
		case 0:
			t.resign(leader)
		case 1:
			leader.node.wire.Cut(true)
			t.waitForLoss(leader)
			leader.node.wire.Cut(false)
		case 2:
			leader.Pause()
			t.waitForLoss(leader)
			t.sleep(t.renewEvery())
			leader.Resume()
		}
	}
	t.waitForLeader(2*t.takeoverBound(), members...)
	t.sleep(2 * t.renewEvery())
	elected := 0
	for _, e := range o.events() {
		if e.Kind == election.Elected {
			elected++
		}
	}
	require(expect(elected >= leaderships, fmt.Sprintf("the observer to receive events for at least %d leaderships", leaderships), elected))
}

func eventsSlow(t *Trial) {
	a := t.participant("a", "jobs", nil)
	var received []election.Event
	done := make(chan struct{})
	var slow atomic.Bool
	slow.Store(true)
	stop := a.Watch(func(e election.Event) {
		received = append(received, e)
		if slow.Load() {
			time.Sleep(t.TTL)
		}
		if e.Reason == election.ReasonLeft {
			close(done)
		}
	})
	defer stop()
	a.lead()
	for i := range 6 {
		t.waitForLeadership(2*t.takeoverBound(), a)
		if i == 5 {
			break
		}
		a.Pause()
		t.waitForLoss(a)
		t.sleep(t.TTL / 20)
		a.Resume()
	}
	slow.Store(false)
	a.leave()
	select {
	case <-done:
	case <-time.After(10*t.TTL + t.Late):
		fail("expected the slow watcher to receive the event that the process left the election, but it did not")
	}
	var own []uint64
	wasElected := false
	for _, e := range received {
		switch e.Kind {
		case election.Elected:
			if wasElected || len(own) > 0 && e.Term <= own[len(own)-1] {
				fail("expected elected and lost alternately with growing terms, got %v", received)
			}
			own, wasElected = append(own, e.Term), true
		case election.Vacant:
			wasElected = false
		}
	}
	require(equal("own leaderships in the slow watcher's events, compared with another watcher", len(own), a.ownLeaderships()),
		equal("own leaderships", len(own), 6))
}

func eventsUnknown(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	t.waitUntil(t.takeoverBound(), "the follower to know the leader", func() bool { return b.Current().Kind == election.Elected })
	a.node.wire.Cut(true)
	b.node.wire.Cut(true)
	limit := t.TTL + t.callTimeout() + t.renewEvery()
	t.waitUntil(limit, "the follower's state to become unknown", func() bool { return b.Current().Kind == election.Unknown })
	t.waitUntil(limit, "the leader's event that its leadership has ended", func() bool {
		return a.hasEvent(func(e election.Event) bool {
			return e.Kind == election.Vacant && e.Reason == election.ReasonUnreachable
		})
	})
	t.waitUntil(limit+t.TTL, "the former leader's state to become unknown", func() bool { return a.Current().Kind == election.Unknown })
	t.waitUntil(t.TTL, "the follower's event with the reason", func() bool {
		return b.hasEvent(func(e election.Event) bool {
			return e.Kind == election.Unknown && e.Reason == election.ReasonUnreachable
		})
	})
	a.node.wire.Cut(false)
	b.node.wire.Cut(false)
	t.waitUntil(2*t.takeoverBound(), "both to know a leader again", func() bool {
		x, termX, okX := a.Leader()
		y, termY, okY := b.Leader()
		return okX && okY && x == y && termX == termY
	})
	leader, other := t.waitForLeader(t.takeoverBound(), a, b)
	leader.Pause()
	other[0].Pause()
	t.waitUntil(t.takeoverBound(), "both to know that there is no leader", func() bool { return a.Current().Kind == election.Vacant && b.Current().Kind == election.Vacant })
}

func eventsManager(t *Trial) {
	n := t.node("a", nil)
	one := n.join("one")
	received := make(chan election.Event, 1000)
	stop := n.Watch(func(e election.Event) { received <- e })
	two := n.join("two")
	one.lead()
	two.lead()
	t.waitUntil(2*t.takeoverBound(), "both to lead", func() bool { return one.Leading() && two.Leading() })
	got := map[string]int{}
	t.waitUntil(t.TTL, "the manager's watcher to receive both leaderships", func() bool {
		for {
			select {
			case e := <-received:
				if e.Kind == election.Elected && e.Leading {
					got[e.Election]++
				}
				continue
			default:
			}
			// One each, or more on a busy machine.
			return got["one"] > 0 && got["one"] == one.ownLeaderships() && got["two"] > 0 && got["two"] == two.ownLeaderships()
		}
	})
	stop()
	one.Pause()
	t.sleep(t.TTL / 2)
	require(equal("events after stop", len(received), 0))
}

func eventsCandidate(t *Trial) {
	a := t.participant("a", "jobs", func(o *election.Options) {
		o.Address, o.Metadata = "[::1]:8080", "zone: eu\nweight: 3\n"
	})
	b := t.participant("b", "jobs", nil)
	a.lead()
	t.waitForLeader(2*t.takeoverBound(), a)
	t.waitUntil(2*t.takeoverBound(), "the follower to know the leader", func() bool { _, _, ok := b.Leader(); return ok })
	leader, term, _ := b.Leader()
	l := a.Leadership()
	if l == nil {
		fail("expected a to lead, but it does not")
	}
	require(equal("id", leader.ID, "a"), equal("address", leader.Address, "[::1]:8080"), equal("metadata", leader.Metadata, "zone: eu\nweight: 3\n"), equal("term", term, l.Term))
	ctx, cancel := t.callContext()
	defer cancel()
	t.waitUntil(2*t.TTL, "both to be listed as members", func() bool { members, err := b.node.Members(ctx); return err == nil && len(members) == 2 })
	r, err := b.Record(ctx)
	require(err, equal("holder in the record", r.Holder, leader), equal("term in the record", r.Term, term))
}

func eventsBadWatchers(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]
	unblock := make(chan struct{})
	defer close(unblock)
	for _, p := range []*participant{a, b} {
		defer p.Watch(func(election.Event) { <-unblock })()
		defer p.Watch(func(election.Event) { panic("a watcher of this test panics") })()
	}
	term := a.Leadership().Term
	t.sleep(3 * t.TTL)
	if l := a.Leadership(); l == nil || l.Term != term {
		fail("expected a to keep leading in term %d beside watchers that hang and panic, got %v", term, a.events())
	}
	before := t.now()
	a.Pause()
	t.waitUntil(t.handoverBound(), "the next leader beside watchers that hang and panic", b.Leading)
	t.waitUntil(t.TTL/10, "the other watcher to receive the event at once", func() bool {
		at, ok := b.eventTime(func(e election.Event) bool { return e.Leading })
		return ok && at >= before
	})
}
