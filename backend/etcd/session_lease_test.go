package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The session's key is attached to an etcd lease, and to another one when a third of it has passed,
// when it is too short, and when it was revoked.
func TestASessionIsAttachedToALivingLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	held := a.mustRenew(a.lead("jobs"))
	attached := func() clientv3.LeaseID { return clientv3.LeaseID(l.key(t, l.session(a)).Lease) }
	first := attached()
	if got, err := l.admin.TimeToLive(t.Context(), first); err != nil || got.GrantedTTL != int64(24*ttl/time.Second) {
		t.Fatalf("the etcd lease lasts %v s, %v; want 24 TTLs", got.GrantedTTL, err)
	}
	if held = a.mustRenew(held); attached() != first {
		t.Error("a renewal has made another etcd lease")
	}
	a.driver.lease.made = time.Now().Add(-8 * ttl)
	if held = a.mustRenew(held); attached() == first || attached() == 0 {
		t.Error("when a third of it has passed the etcd lease is not replaced")
	}
	second := attached()
	long := held
	long.Election = "more"
	if _, err := a.bid(a.read("more"), 2*ttl); err != nil {
		t.Fatal(err)
	}
	long = a.read("more")
	long.Holder = a.me
	a.mustRenew(long)
	third := attached()
	if got, err := l.admin.TimeToLive(t.Context(), third); err != nil || third == second || got.GrantedTTL != int64(48*ttl/time.Second) {
		t.Errorf("with a longer TTL the etcd lease is %x, before %x, and lasts %v s, %v", third, second, got.GrantedTTL, err)
	}
	if _, err := l.admin.Revoke(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	if a.mustRenew(held); attached() == third || attached() == 0 {
		t.Error("after it was revoked the session is on no other etcd lease")
	}
}
