package kubernetes

import (
	"errors"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"

	"github.com/go-election/go-election/lab/testbed"
)

// The cluster's store is restored from a copy that lacks the last grant. UIDs and versions are those of
// the copy. Who has read later versions notices it, and lets nothing be led before the greatest TTL.
func TestARestoredClusterIsWatched(t *testing.T) {
	t.Parallel()
	k := testbed.StartKubernetes(t, testbed.KubernetesOptions{})
	l := newLab(t, k)
	a, b, c, d := l.node(t, "a"), l.node(t, "b"), l.node(t, "c"), l.node(t, "d")
	held := a.mustRenew(a.lead("jobs"))
	a.release(a.lead("vacant"))
	a.release(a.lead("unread")) // by d, which hears of the restore by another Lease
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
	b.lead("unread")
	vacant := b.lead("vacant")
	d.observe("vacant")
	fresh := b.lead("new")
	for _, name := range []string{"jobs", "vacant", "new"} {
		c.observe(name)
		next = b.mustRenewIf(name == "jobs", next)
	}
	a.observe("jobs")
	k.RestoreStore(t, saved)
	for _, n := range []*node{a, b, c, d} {
		there(n)
	}
	d.mustBeWatched("unread", "an older copy was restored")
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

// A Lease that has an older version than it had comes from a copy, even if the store as a whole counts on from
// where it was, as after etcdutl snapshot restore --bump-revision. What began before that was noticed is
// not believed, and counts no second restore.
func TestAnOlderVersionOfALeaseShowsARestore(t *testing.T) {
	b := &Backend{objects: map[string]*object{}, followed: map[string]bool{}, terms: map[string]uint64{}}
	b.highest = 60
	b.keep("jobs", newObject(&coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "jobs", ResourceVersion: "50"}}, time.Now()))
	first, second := b.now("jobs"), b.now("jobs")
	if err := errors.Join(b.notBefore(&first, "", 1000), b.notBefore(&first, "jobs", 50)); err != nil {
		t.Errorf("newer answers: %v", err)
	}
	if err := b.notBefore(&first, "jobs", 40); !errors.Is(err, errBack) || b.back != 1 || len(b.objects) > 0 {
		t.Errorf("an older version: %v, %d restores, %d Leases remembered; want errBack, 1, 0", err, b.back, len(b.objects))
	}
	if err := b.notBefore(&second, "", 2000); !errors.Is(err, errBack) || b.back != 1 {
		t.Errorf("an answer to what began before: %v, %d restores; want errBack, 1", err, b.back)
	}
	third := b.now("jobs")
	if err := b.notBefore(&third, "", 900); err != nil {
		t.Errorf("an answer to what began afterwards: %v", err)
	}
}
