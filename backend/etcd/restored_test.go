package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A leftover from before a restore may not be the last grant. When its holder releases it, it
// is still not free at once, for anyone.
func TestALeftoverFromBeforeARestoreIsWatched(t *testing.T) {
	t.Parallel()
	for how, release := range map[string]func(t *testing.T, a *node, held backend.Lease){
		"by a bid": func(t *testing.T, a *node, _ backend.Lease) {
			over := a.read("jobs")
			over.Version += "x" // as if it had changed since
			if got, err := a.bid(over, ttl); err != nil || got.Outcome != backend.Refused {
				t.Fatal(got.Outcome, err)
			}
		},
		"by a release":                   func(_ *testing.T, a *node, _ backend.Lease) { a.mustRelease(backend.Lease{Election: "jobs"}) },
		"by a release as it was granted": func(_ *testing.T, a *node, held backend.Lease) { a.mustRelease(held) },
		"by a release of what may be on its way, over a vacancy": func(_ *testing.T, a *node, held backend.Lease) {
			a.losesBid(a.read("jobs"))
			a.mustRelease(backend.Lease{Election: "jobs"})
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.lead("jobs")
			if how == "by a release of what may be on its way, over a vacancy" {
				a.mustRelease(held)
			}
			for _, n := range []*node{a, b} {
				n.goBack()
			}
			b.mustBeWatched("jobs", "the store went back")
			a.read("jobs")
			release(t, a, held)
			for _, n := range []*node{a, b} {
				n.mustBeWatched("jobs", "it was released "+how)
			}
		})
	}
}

// A single node of etcd is restored from a copy of its data, and the copy lacks the last grant.
// Its id is the same, and so is that of the cluster.
func TestARestoredSnapshotIsWatched(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	l := newLab(t, n.URL())
	a, b, c := l.node(t, "a"), l.node(t, "b"), l.node(t, "c")
	held := a.mustRenew(a.lead("jobs"))
	a.mustRelease(a.lead("vacant"))
	data, copied := filepath.Join(n.Dir(), "data"), filepath.Join(n.Dir(), "copied")
	n.Kill(t)
	if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	n.Start(t)
	testbed.Eventually(t, patience, "etcd is there again", func() error { _, err := b.tryRead("jobs"); return err })
	next := b.mustTakeOver(b.read("jobs"))
	b.lead("vacant")
	b.lead("new")
	for _, name := range []string{"jobs", "vacant"} {
		a.read(name)
		c.read(name)
	}
	loseData(t, n)
	if err := os.Rename(copied, data); err != nil {
		t.Fatal(err)
	}
	n.Start(t)
	testbed.Eventually(t, patience, "etcd is there again", func() error { _, err := c.tryRead("jobs"); return err })
	for _, name := range []string{"jobs", "vacant", "new"} {
		c.mustBeWatched(name, "an older copy was restored")
	}
	a.read("other")
	a.mustRefuse(held, "though the copy has its session as it was")
	b.mustRefuse(next, "which is not in the copy")
	if last := c.mustTakeOver(c.read("jobs")); last.Term <= next.Term {
		t.Errorf("term %d after %d", last.Term, next.Term)
	}
}

// Two restores into other clusters, and then the record is deleted: a process that starts only then
// knows of no term, and grants a greater one all the same.
func TestTermsGrowThroughTwoRestoresAndADeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	last := l.node(t, "a").lead("jobs")
	record := l.record("jobs")
	for _, cluster := range []string{"1", "2"} {
		l.put(t, record, edit(t, l.value(t, record), map[string]any{"epoch": cluster}))
		n := l.node(t, "n")
		last = n.mustTakeOver(n.read("jobs"))
	}
	l.del(t, record)
	late := l.node(t, "late")
	if got, err := late.bid(late.read("jobs"), ttl); err != nil || got.Outcome != backend.Granted || got.Term <= last.Term {
		t.Errorf("want a term above %d, got %d (%v, %v)", last.Term, got.Term, got.Outcome, err)
	}
}

// loseData kills a node and deletes its data.
func loseData(t *testing.T, n *testbed.EtcdNode) {
	t.Helper()
	n.Kill(t)
	if err := os.RemoveAll(filepath.Join(n.Dir(), "data")); err != nil {
		t.Fatal(err)
	}
}

// fillRevisions writes foreign keys, so that revisions are far above those of the store once
// it is rebuilt and counts them anew.
func (l *lab) fillRevisions(t testing.TB, writes int) {
	t.Helper()
	for range writes {
		l.put(t, "other", "x")
	}
}

// A process that led before a store lost everything can lead there again.
func TestAFormerLeaderCanLeadARebuiltStore(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	l := newLab(t, n.URL())
	a := l.node(t, "a")
	l.fillRevisions(t, 20)
	held := a.mustRenew(a.lead("jobs"))
	loseData(t, n)
	n.Start(t)
	next := a.mustTakeOver(a.mustBeWatched("jobs", "everything was lost"))
	if next.Term <= held.Term {
		t.Errorf("term %d after %d", next.Term, held.Term)
	}
	a.mustRenew(next)
}

// etcd loses all data. There are never two leaders, and soon there is one again, even if only
// the former leader campaigns.
func TestARebuiltStoreElectsOneLeader(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		members int
		waits   bool // as documented
	}{
		"after a TTL, one member":   {1, true},
		"at once, and within a TTL": {2, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := testbed.StartEtcd(t, testbed.EtcdOptions{})
			l := newLab(t, n.URL())
			l.fillRevisions(t, 200)
			options := []Options{l.options(), l.options()}
			const ttl = 3 * time.Second
			f := newFleet(t, ttl, options[:c.members]...)
			term := f.leadInOrder()
			loseData(t, n)
			if c.waits {
				testbed.Eventually(t, patience, "there is no leader", func() error {
					if f.elections[0].Leading() {
						return errors.New("m0 leads")
					}
					return nil
				})
			}
			n.Start(t)
			testbed.Eventually(t, patience, "there is a leader in a later term", func() error {
				for _, s := range f.elections {
					if now := s.Leadership(); now != nil && now.Term > term {
						return nil
					}
				}
				return errors.New(f.elections[0].Current().String())
			})
		})
	}
}
