package kubernetes

import (
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A member of client-go leads as long as it renews.
func TestALeaderOfClientGoIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	n := l.node(t, "n")
	now := meta.NowMicro()
	_, err := l.admin.Create(t.Context(), &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "jobs"}, Spec: coordination.LeaseSpec{
		HolderIdentity: new("pod-1_x"), LeaseDurationSeconds: new(int32(15)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
	}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := n.observe("jobs")
	if first.Holder.ID != "pod-1_x" || first.ObserveFor != 15*time.Second || first.TTL != 15*time.Second {
		t.Errorf("it is shown as %+v; want pod-1_x, watched for 15s", first)
	}
	l.write(t, "jobs", "pod-1_x", 15, false)
	second := n.observe("jobs")
	if second.Unchanged(first) || second.Holder != first.Holder {
		t.Errorf("renewed, it is %+v after %+v; want another Version of the same leadership", second, first)
	}
	n.mustLose(first, "it was renewed")
	held := n.mustWin(second, first)
	if o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{}); err != nil || holder(&o.Spec) != "n" || seconds(&o.Spec) != 3 || transitions(&o.Spec) != 1 {
		t.Errorf("kubectl shows %s for %d s in transition %d (%v); want n, 3 s, 1", holder(&o.Spec), seconds(&o.Spec), transitions(&o.Spec), err)
	}
	// It takes over: its leadership has no term of its own.
	l.write(t, "jobs", "pod-1_x", 15, true)
	n.mustRefuse(held, "a member of client-go has taken over")
	third := n.observe("jobs")
	if third.Term != held.Term || third.Holder.Nonce == first.Holder.Nonce {
		t.Errorf("it is shown as %+v; want the last term of this module, %d, and another leadership than %v", third, held.Term, first.Holder.Nonce)
	}
	// It releases its lease. Whether the leader before has noticed, nobody can tell from the Lease.
	l.clear(t, "jobs")
	next := n.mustWin(n.mustBeWatched("jobs", "n may not have noticed that another has led"), held)
	// After a leadership that was released, it takes over, and releases its lease: another leads at once.
	n.release(next)
	l.write(t, "jobs", "pod-1_x", 15, true)
	l.clear(t, "jobs")
	n.mustWin(n.mustBeFree("jobs", "a member of client-go that led has released it"), next)
}

// A member of client-go takes a blank that nobody of this module believes, and ends in order.
func TestABlankFreesNothingThoughClientGoHasTakenIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	l.clear(t, "jobs")
	l.write(t, "jobs", "pod-2_y", 15, true)
	b.observe("jobs")
	l.clear(t, "jobs")
	b.mustBeWatched("jobs", "a leads, and has not noticed")
	a.mustRefuse(held, "its Lease was blanked and taken")
}

// Members of client-go compare renewTime in whole seconds. They see each renewal, or wait a second longer.
func TestMembersOfClientGoSeeEachRenewal(t *testing.T) {
	r := record{Record: lease.Record{ID: "a", Nonce: "1", TTL: lease.Span(9 * time.Second), Renew: lease.Span(3 * time.Second), Written: time.Now().UTC()}}
	for range 5 {
		before := r.spec().RenewTime.Unix()
		if r.Written = later(r.Written, time.Duration(r.Renew)); r.spec().RenewTime.Unix() <= before {
			t.Errorf("renewTime is %d after %d: they may take over a lease that was renewed", r.spec().RenewTime.Unix(), before)
		}
	}
	r.TTL, r.Renew = lease.Span(1500*time.Millisecond), lease.Span(500*time.Millisecond)
	if spec := r.spec(); seconds(&spec) != 3 {
		t.Errorf("leaseDurationSeconds is %d for a TTL of 1.5s with renewals each 500ms; want 3", seconds(&spec))
	}
}

// A member of client-go that no longer leads may blank the Lease. Nobody of this module believes that.
func TestALateReleaseOfClientGoFreesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.lead("jobs")
	l.write(t, "jobs", "pod-1_x", 15, true)
	held := b.lead("jobs")
	l.clear(t, "jobs")
	a.mustBeWatched("jobs", "b leads, and has not noticed")
	b.mustRefuse(held, "its Lease was blanked")
}

// Nobody else can lead a lease that has moved to another store: for members of client-go it is held for
// 68 years.
func TestASealedLeaseIsHeldForMembersOfClientGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	n := l.node(t, "n")
	sealed := n.seal(n.lead("jobs"))
	for range 2 {
		o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
		if err != nil || holder(&o.Spec) != "moved to mysql" || seconds(&o.Spec) != 1<<31-1 {
			t.Errorf("the Lease is held by %q for %d s (%v)", holder(&o.Spec), seconds(&o.Spec), err)
		}
		n.release(sealed) // which changes nothing of it
	}
	if err := l.edit("jobs", func(o *coordination.Lease) { delete(o.Annotations, recordKey) }); err != nil {
		t.Fatal(err)
	}
	if got := l.node(t, "late").observe("jobs"); got.ObserveFor < 1000*time.Hour {
		t.Errorf("without its record, the seal is free after %v", got.ObserveFor)
	}
}
