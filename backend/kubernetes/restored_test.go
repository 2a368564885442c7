package kubernetes

import (
	"testing"

	"github.com/go-election/go-election/backend"

	"github.com/go-election/go-election/internal/testbed"
)

// The cluster's store is restored from a copy that lacks the last grant. UIDs and versions are those of
// the copy. Who has read later versions notices it, and lets nothing be led before the greatest TTL.
func TestARestoredClusterIsWatched(t *testing.T) {
	t.Parallel()
	k := testbed.StartKubernetes(t, testbed.KubernetesOptions{})
	l := newLab(t, k)
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	held := a.mustRenew(a.lead("jobs"))
	a.release(a.lead("vacant"))
	saved := k.SaveStore(t)
	there := func(n *node) {
		testbed.Eventually(t, patient, "the API server is there again", func() error {
			ctx, cancel := n.ctx()
			defer cancel()
			_, err := n.List(ctx, "", 1)
			return err
		})
	}
	there(b)
	next := b.mustWin(b.observe("jobs"), held)
	vacant := b.lead("vacant")
	fresh := b.lead("new")
	for _, name := range []string{"jobs", "vacant", "new"} {
		c.observe(name)
		next = b.mustRenewIf(name == "jobs", next)
	}
	a.observe("jobs")
	k.RestoreStore(t, saved)
	for _, n := range []*node{a, b, c} {
		there(n)
	}
	for _, name := range []string{"jobs", "vacant", "new"} {
		c.mustBeWatched(name, "an older copy was restored")
	}
	a.mustRefuse(held, "the copy has its leadership as it was")
	b.mustRefuse(next, "which is not in the copy")
	c.mustWin(c.observe("jobs"), next)
	last := c.mustWin(c.observe("vacant"), vacant)
	c.mustWin(c.observe("new"), fresh)
	c.mustRenew(last)
	c.release(last)
	c.mustBeFree("vacant", "it was led and released after the restore")
}

func (n *node) mustRenewIf(yes bool, held backend.Lease) backend.Lease {
	if yes {
		return n.mustRenew(held)
	}
	return held
}
