package conformance

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// The cases P8 to P11: Try, Campaign, Run and Leave.

func operatorTry(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	b := t.participant("b", "jobs", nil)
	ctx := context.Background()
	for range 2 {
		if l, err := b.Try(ctx); !errors.Is(err, election.ErrNotElected) || l != nil {
			fail("try while another process leads: expected ErrNotElected, got %v and %v", format(l), err)
		}
	}
	a.end(t.TTL)

	l, err := b.Try(ctx)
	if err != nil || l == nil || !l.Leading() {
		fail("try for a free lease: expected a leadership, got %v and error %v", format(l), err)
	}
	t.sleep(2 * t.TTL)
	require(expect(l.Leading(), b.events(), "the manager to renew the lease"))

	require(l.Resign(ctx))
	t.sleep(2 * t.TTL)
	now := t.client("reader").read("jobs")
	require(expect(!b.Leading() && now.Vacant(), now, "no campaign after Resign"))
}

func operatorCampaign(t *Trial) {
	a, _ := t.startWithLeader(1, "jobs", nil)
	b := t.participant("b", "jobs", nil)
	ctx, cancel := context.WithTimeout(context.Background(), t.TTL)
	l, err := b.Campaign(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) || l != nil {
		fail("campaign while another process leads: expected the context's error, got %v and %v", format(l), err)
	}
	a.Pause()
	t.sleep(t.TTL)
	require(expect(!b.Leading(), b.Current(), "no campaign after the context has ended"))
	ctx, cancel = context.WithTimeout(context.Background(), t.takeoverBound())
	defer cancel()
	if l, err = b.Campaign(ctx); err != nil || l == nil || !l.Leading() {
		fail("campaign for a free lease: expected a leadership, got %v and error %v", format(l), err)
	}
	b.node.wire.Cut(true)
	t.waitUntil(t.TTL, "the leadership to end", func() bool { return l.Context().Err() != nil && !l.Leading() })
	b.node.wire.Cut(false)
	t.sleep(t.TTL)
	require(expect(!b.Leading(), b.Current(), "no second leadership before Resign of the first"))
	must(l.Resign(t.callContext()), "resign after a loss")
	ctx, cancel = context.WithTimeout(context.Background(), t.takeoverBound())
	defer cancel()
	second, err := b.Campaign(ctx)
	if err != nil || second.Term <= l.Term {
		fail("campaign again: expected a leadership above term %d, got %v and error %v", l.Term, format(second), err)
	}
}

func operatorLeave(t *Trial) {
	a, others := t.startWithLeader(2, "jobs", nil)
	n, b := a.node, others[0]
	if _, err := n.Join("jobs"); !errors.Is(err, backend.ErrInvalid) {
		fail("joining twice: expected ErrInvalid, got %v", err)
	}
	if _, err := n.Join("a\x00b"); !errors.Is(err, backend.ErrInvalid) {
		fail("joining an invalid name: expected ErrInvalid, got %v", err)
	}
	for range 3 {
		a.leave()
		now := t.client("reader").read("jobs")
		require(expect(now.Holder.ID != n.ID(), now, "nothing of this process in the store when Leave returns"),
			expect(n.Election("jobs") == nil, a.Name(), "the election to be removed from the manager"))
		if err := a.Lead(nil); !errors.Is(err, backend.ErrClosed) {
			fail("expected ErrClosed from Lead after Leave, got %v", err)
		}
		a = n.join("jobs")
		a.lead()
		t.waitForLeader(t.takeoverBound(), a, b)
	}
	b.Pause()
	t.waitForLeader(t.takeoverBound(), a)
}

func marksEndCampaigns(t *Trial) {
	c := t.client("c")
	held := c.win("jobs")
	c.release(backend.Released, c.mark(held, "there", ""))
	p := t.candidate("a", "jobs", nil)
	t.waitUntil(t.takeoverBound(), "the manager to report that the election has moved", func() bool {
		now := p.Current()
		return now.Kind == election.Vacant && now.Reason == election.ReasonMoved && now.Err != nil
	})
	t.sleep(2 * t.TTL)
	require(expect(!p.Leading() && p.ownLeaderships() == 0, p.Current(), "no leader of an election that has moved"))
}
