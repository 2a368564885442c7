package conformance

import (
	"github.com/go-election/go-election/election"
)

var eventCases = []Case{
	{Rule: "S10", Name: "Manager.Watch reports every election", run: eventsManager,
		Says: "Manager.Watch calls back at every change in every election that the manager has joined or joins later."},
	{Rule: "S10", Name: "an event carries the leader's address and metadata", run: eventsCandidate,
		Says: "Every event and Leader() contain the leader's address and metadata."},
	{Rule: "S12", Name: "a watcher that hangs or panics delays nothing", run: eventsBadWatchers,
		Says: "A callback that hangs or panics delays neither renewals nor other watchers."},
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
	require(equal(len(received), 0, "events after stop"))
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
	require(equal(leader.ID, "a", "id"), equal(leader.Address, "[::1]:8080", "address"), equal(leader.Metadata, "zone: eu\nweight: 3\n", "metadata"), equal(term, l.Term, "term"))
	ctx := t.callContext()
	t.waitUntil(2*t.TTL, "both to be listed as members", func() bool { members, err := b.node.Members(ctx); return err == nil && len(members) == 2 })
	r, err := b.Record(ctx)
	require(err, equal(r.Holder, leader, "holder in the record"), equal(r.Term, term, "term in the record"))
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
