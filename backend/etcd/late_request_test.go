package etcd

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// The servers may carry out a bid much later if its answer was lost. After a Release with
// term 0 they must not: package lease, "Late requests".
func TestALateBidAfterReleaseIsNotGranted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(l *lab, a, b *node)
		holder string
	}{
		{"an election that was never led", func(_ *lab, a, b *node) {}, ""},
		{"a vacant election", func(_ *lab, a, b *node) { a.mustRelease(a.lead("jobs")) }, ""},
		{"an election whose holder has died", func(_ *lab, a, b *node) { b.lead("jobs") }, "b"},
		{"a record as large as etcd accepts", func(l *lab, a, b *node) {
			b.lead("jobs")
			l.put(t, l.record("jobs"), strings.Repeat("x", 3<<19-len(l.record("jobs"))-60))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			a.mustRelease(a.lead("other")) // it has a session
			c.before(l, a, b)
			late := a.losesBid(a.read("jobs"))
			a.mustRelease(backend.Lease{Election: "jobs"})
			if w, err := late(); err != nil || w.Results[0].Outcome != backend.Refused {
				t.Errorf("the late bid: %v, %v; want it refused, because what it requires was written since", w.Results, err)
			}
			if l := a.read("jobs"); l.Holder.ID != c.holder {
				t.Errorf("after the late bid %v holds the lease; want %q", l.Holder, c.holder)
			}
		})
	}
}

// A request that arrives twice, or late, has no effect the second time: etcd compares revisions.
func TestRequestsThatArriveTwiceChangeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	var writes []func() error
	twice := func(n *node) { // its next write is sent once more later
		n.hook.before = func(write func() (lease.Written, error)) bool {
			writes = append(writes, func() error { _, err := write(); return err })
			return true
		}
	}
	twice(a)
	held := a.lead("jobs")
	twice(a)
	held = a.mustRenew(held)
	twice(a)
	a.mustRelease(held)
	next := b.lead("jobs")
	before := l.value(t, l.record("jobs")) + l.value(t, l.session(a))
	for i, write := range writes {
		if err := write(); err != nil {
			t.Errorf("write %d once more: %v", i, err)
		}
	}
	if now := l.value(t, l.record("jobs")) + l.value(t, l.session(a)); now != before {
		t.Errorf("late copies have changed\n%s to\n%s", before, now)
	}
	b.mustRenew(next)
}
