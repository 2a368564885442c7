package consul

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// at returns when a member last announced itself, by its own clock.
func (l *lab) at(t *testing.T, nonce string) time.Time {
	t.Helper()
	pair, _, err := l.root.KV().Get(l.keys.member+nonce, nil)
	fatal(t, err)
	var m member
	if pair == nil || !decode(pair, &m) {
		t.Fatalf("no member %s: %v", nonce, pair)
	}
	return m.At
}

// A follower writes its member's key together with a read once half a TTL has passed, and not before.
func TestAFollowerAnnouncesItselfWithItsReads(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.win("jobs")
	const long = time.Minute // only the time that the test simulates counts
	announce := func() { fatal(t, b.Announce(t.Context(), backend.Member{Candidate: b.me, TTL: long})) }
	announce()
	b.observe("jobs")
	for range 3 {
		last := l.at(t, string(b.me.Nonce))
		b.wire.take()
		b.observe("jobs")
		if now := l.at(t, string(b.me.Nonce)); now != last {
			t.Errorf("announced again within half a TTL: %v, then %v", last, now)
		}
		b.announced.mu.Lock()
		b.announced.at = b.announced.at.Add(-long / 2)
		b.announced.mu.Unlock()
		if got := b.observe("jobs"); got.Term != held.Term {
			t.Errorf("want term %d, read %+v", held.Term, got)
		}
		if now := l.at(t, string(b.me.Nonce)); !now.After(last) {
			t.Errorf("not announced with a read: %v, then %v", last, now)
		}
		announce()
		if n := len(b.wire.take()); n != 2 {
			t.Errorf("two reads and an announcement: want 2 requests, got %d", n)
		}
	}
}

// A read does not fail because the member has no right to write.
func TestAReadSucceedsWithoutTheRightToWrite(t *testing.T) {
	t.Parallel()
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	admin := func(o *Options) { o.Token = agent.AdminToken() }
	a := l.node(t, "a", admin)
	held := a.win("jobs")
	secret := token(t, l.root, `key_prefix "`+l.prefix+`/" { policy = "read" }`).SecretID
	later := &bearer{}
	b := l.node(t, "b", admin, func(o *Options) {
		later.wire, o.HTTPClient = o.HTTPClient.Transport, &http.Client{Transport: later}
	})
	fatal(t, b.Announce(t.Context(), backend.Member{Candidate: b.me, TTL: labTTL}))
	later.token = secret // from now on it may only read
	b.advance(labTTL)
	for range 2 {
		if got := b.observe("jobs"); got.Term != held.Term {
			t.Errorf("want term %d, read %+v", held.Term, got)
		}
	}
	if err := b.Announce(t.Context(), backend.Member{Candidate: b.me, TTL: labTTL}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("an announcement in a request of its own: want %v, got %v", backend.ErrDenied, err)
	}
}

// A bearer sends another token, once it has one.
type bearer struct {
	wire  http.RoundTripper
	token string
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Consul-Token", b.token)
	}
	return b.wire.RoundTrip(r)
}
