package etcd

import (
	"testing"

	"github.com/go-election/go-election/backend"
)

// The servers may carry out a bid much later if its answer was lost. After a Release with
// term 0 they must not: docs/design/etcd.md, "Late requests".
func TestALateBidAfterReleaseIsNotGranted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(a, b *node)
		holder string
	}{
		{"an election that was never led", func(a, b *node) {}, ""},
		{"a vacant election", func(a, b *node) { release(t, a, a.lead("jobs")) }, ""},
		{"an election whose holder has died", func(a, b *node) { b.lead("jobs") }, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			ctx, cancel := a.ctx()
			defer cancel()
			release(t, a, a.lead("other")) // it has a session
			c.before(a, b)
			bids := []backend.Bid{{Election: "jobs", Candidate: a.me, TTL: ttl, Renew: ttl / 3, Expected: a.read("jobs")}}
			sent := a.readFor(ctx, bids, []int{0})                                               // the late bid requires this state
			a.markPending([]change{{&entry{Lease: backend.Lease{Election: "jobs"}}, &record{}}}) // it was sent, but not answered
			release(t, a, backend.Lease{Election: "jobs"})
			answers := make([]backend.Answer, 1)
			const lastTry = 5
			if err := a.acquire(ctx, bids, []int{0}, sent, answers, lastTry); err == nil || answers[0].Outcome == backend.Granted {
				t.Errorf("the late bid: %v, %v; want it to fail, because revisions have changed", answers[0].Outcome, err)
			}
			if l := a.read("jobs"); l.Holder.ID != c.holder {
				t.Errorf("after the late bid %v holds the lease; want %q", l.Holder, c.holder)
			}
		})
	}
}

func release(t *testing.T, a *node, l backend.Lease) {
	t.Helper()
	ctx, cancel := a.ctx()
	defer cancel()
	l.End = backend.Released
	if err := a.Release(ctx, []backend.Held{l.Held()}); err != nil {
		t.Fatal(err)
	}
}
