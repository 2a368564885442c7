package etcd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
)

// A session's key that would be larger than is read is not written. What is renewed goes on
// under another session, so that everybody sees it, and nobody takes it over as silent.
func TestASessionKeyNeverExceedsTheReadLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.mustRenew(a.lead("jobs"))
	full := a.currentSession()

	// As if thousands of others with long names had been renewed apart, and may be held.
	var others []change
	apart := make(map[string]heartbeat)
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
			t.Fatalf("renewal %d was granted, and b does not see it: it has %+v still", i, now)
		}
		b.mustLose(seen, "though it was renewed since")
		for _, s := range []*session{full, a.currentSession()} {
			if size := len(l.value(t, l.keys.heartbeat(s.name))); size > maxHeartbeats {
				t.Errorf("renewal %d wrote %d bytes into a session's key, of which no more than %d are read", i, size, maxHeartbeats)
			}
		}
	}
	if a.currentSession() == full {
		t.Error("it goes on under the session whose key is full")
	}
}

// What certainly hangs on another session is not listed in the key of the present one, which
// would only grow by it, and runs out there as it would have here.
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
	if now := decode[heartbeats]([]byte(l.value(t, l.keys.heartbeat(a.currentSession().name)))); len(now.Apart) > 0 {
		t.Errorf("of the second session %v stand apart; want nothing", now.Apart)
	}
	if now := b.read("left"); !now.Unchanged(seen) {
		t.Errorf("a lease that was not renewed: %+v, before %+v; want the watch to go on", now, seen)
	}
	b.mustTakeOver(seen)
}
