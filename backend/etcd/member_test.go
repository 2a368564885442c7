package etcd

import (
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// The session is the member's record. So a renewal announces the member, and Announce writes only
// what has changed or was not written lately.
func TestARenewalAnnouncesTheMember(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	ctx, cancel := a.ctx()
	defer cancel()
	held := a.lead("jobs")
	for _, c := range []struct {
		stage  string
		writes bool
	}{{"from", true}, {"from", false}, {"both", true}} {
		held = a.mustRenew(held)
		before := l.key(t, l.session(a)).ModRevision
		if err := a.Announce(ctx, backend.Member{Candidate: a.me, TTL: ttl, Stage: c.stage}); err != nil {
			t.Fatal(err)
		}
		if now := l.key(t, l.session(a)); (now.ModRevision != before) != c.writes {
			t.Errorf("stage %s: the session is written: %v; want %v", c.stage, now.ModRevision != before, c.writes)
		}
		list, err := b.Members(ctx, "", 10)
		if err != nil || len(list) != 1 || list[0].Candidate != a.me || list[0].Stage != c.stage {
			t.Errorf("members %+v, %v; want a in stage %s", list, err, c.stage)
		}
	}
	a.mustRenew(held)
}

// A member is listed until some TTLs after its last announcement, even if pages are full of
// expired ones. A foreign key is no nonce, and hides no member after it.
func TestExpiredMembersAreNotListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for nonce, ago := range map[string]time.Duration{"1": 100 * ttl, "2": ttl, "3": 100 * ttl, "4": 100 * ttl, "5": 3 * ttl / 2, "6": 5 * ttl, "\x01": 0, "2\xff": 0, " \u202e": 0} {
		key := l.keys.key(lease.Key{Kind: lease.Sessions, Name: nonce})
		l.put(t, key, lease.Encode(&lease.Session{ID: "x", Nonce: nonce, TTL: lease.Span(ttl), At: time.Now().UTC().Add(-ago)}))
	}
	a := l.node(t, "a")
	ctx, cancel := a.ctx()
	defer cancel()
	var nonces []string
	for from := ""; ; {
		page, err := a.Members(ctx, from, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		nonces = append(nonces, string(page[0].Nonce))
		from = string(page[0].Nonce + "\x00")
	}
	if !slices.Equal(nonces, []string{"2", "5"}) {
		t.Errorf("members %q are listed; want 2 and 5, which have not expired", nonces)
	}
}
