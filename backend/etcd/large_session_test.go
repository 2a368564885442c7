package etcd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A session record above the size that is read is not written. The renewed leases continue
// under another session, so that challengers see the renewal and take nothing over.
func TestASessionKeyNeverExceedsTheReadLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.mustRenew(a.lead("jobs"))
	full := a.currentSession()

	// As if thousands of other leases with long names were held and were in Apart.
	var others []change
	apart := make(map[string]lease.Heartbeat)
	for i := range maxHeartbeats/255 + 1 {
		name := fmt.Sprintf("%05d", i) + strings.Repeat("x", 250)
		others = append(others, change{&entry{Lease: backend.Lease{Election: name}}, &record{}})
		apart[name] = 7
	}
	a.markPending(others)
	a.mu.Lock()
	full.last.Apart = apart
	a.mu.Unlock()

	for i := range 3 {
		seen := b.mustBeWatched("jobs", "it is held")
		held = a.mustRenew(held)
		if now := b.read("jobs"); now.Unchanged(seen) {
			t.Fatalf("renewal %d was granted, but b does not see it: b still reads %+v", i, now)
		}
		b.mustLose(seen, "though it was renewed since")
		for _, s := range []*session{full, a.currentSession()} {
			if size := len(l.value(t, l.keys.heartbeat(s.name))); size > maxHeartbeats {
				t.Errorf("renewal %d wrote %d bytes into a session key; at most %d are read", i, size, maxHeartbeats)
			}
		}
	}
	if a.currentSession() == full {
		t.Error("the lease is still under the session whose key is full")
	}
}

// A lease that is certainly under another session is not listed in the current session's key,
// which would only grow. It expires there as it would here.
func TestLeasesOfOtherSessionsAreNotListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.lead("left")
	one, two := a.lead("one"), a.lead("two")
	a.abandonSession(a.currentSession())
	one, two = a.mustRenew(one), a.mustRenew(two)
	seen := b.read("left")
	ctx, cancel := a.ctx()
	defer cancel()
	if _, err := a.Renew(ctx, []backend.Held{one.Held(), two.Held()}); err != nil {
		t.Fatal(err)
	}
	if now := decode[lease.Session]([]byte(l.value(t, l.keys.heartbeat(a.currentSession().name)))); len(now.Apart) > 0 {
		t.Errorf("the second session lists %v in Apart; want nothing", now.Apart)
	}
	if now := b.read("left"); !now.Unchanged(seen) {
		t.Errorf("a lease that was not renewed: %+v, before %+v; want the watch to continue", now, seen)
	}
	b.mustTakeOver(seen)
}
