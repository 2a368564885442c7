package lease_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// follows does for ten TTLs what the manager of a follower does, and returns the greatest age of the member that another
// process sees.
func (p *process) follows(leader *process, l backend.Lease) (oldest time.Duration) {
	p.w.Helper()
	for n := range 10 {
		if err := p.b.Announce(p.w.Context(), backend.Member{Candidate: p.me, TTL: ttl}); err != nil {
			p.w.Error(err)
		}
		for range 3 {
			leader.renews(l)
			time.Sleep(ttl / 6)
			if seen := p.sees("jobs"); seen.Holder.ID != leader.me.ID {
				p.w.Errorf("round %d: %+v", n, seen)
			}
			time.Sleep(ttl / 6)
		}
		members, err := leader.b.Members(p.w.Context(), "", 10)
		age := 5 * ttl
		for _, m := range members {
			if m.ID == p.me.ID {
				age = m.Age
			}
		}
		if oldest = max(oldest, age); err != nil {
			p.w.Error(err)
		}
	}
	return oldest
}

func TestAFollowerWritesOnceATTL(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		sent := &requests{Driver: b.wire}
		b.b = lease.New(sent)
		oldest := b.follows(a, l)
		w.want(sent.writes <= 11, "ten announcements have taken %d writes", sent.writes)
		w.want(sent.reads <= 34, "30 readings have taken %d requests", sent.reads)
		w.want(oldest <= ttl, "the member looked as if it had been silent for %v", oldest)
	})
}

// The session is the member's record. So a renewal announces the member, and Announce writes only what has changed.
func TestARenewalAnnouncesTheMember(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		for _, c := range []struct {
			stage  string
			writes int
		}{{"from", 1}, {"from", 0}, {"both", 1}} {
			a.renews(l)
			before := len(a.wire.history)
			testbed.NoError(w, a.b.Announce(w.Context(), backend.Member{Candidate: a.me, TTL: ttl, Stage: c.stage}))
			w.want(len(a.wire.history)-before == c.writes, "stage %s is announced by %d writes, want %d", c.stage, len(a.wire.history)-before, c.writes)
			list, err := b.b.Members(w.Context(), "", 10)
			w.want(err == nil && len(list) == 1 && list[0].Candidate == a.me && list[0].Stage == c.stage, "members %+v, %v; want a in stage %s", list, err, c.stage)
		}
		a.goesOn(ttl, "it has announced itself", l)
	})
}

// A member is listed until two of its TTLs after its last announcement, even if pages are full of expired ones. A foreign
// key is no nonce, and hides no member after it.
func TestExpiredMembersAreNotListed(t *testing.T) {
	inWorld(t, func(w *world) {
		const first = 100 * ttl
		began := time.Now()
		for _, c := range []struct {
			nonce string
			ago   time.Duration
		}{{"1", first}, {"3", first}, {"4", first}, {"6", 5 * ttl}, {"5", 3 * ttl / 2}, {"2", ttl}, {"\x01", 0}, {"2\xff", 0}, {" \u202e", 0}} {
			time.Sleep(time.Until(began.Add(first - c.ago)))
			s := &lease.Session{ID: "x", Nonce: c.nonce, TTL: lease.Span(ttl), At: time.Now().UTC()}
			w.store.Edit(lease.Key{Kind: lease.Sessions, Name: c.nonce}, func(string) string { return lease.Encode(s) })
		}
		a := w.start("a")
		var nonces []string
		for from := ""; ; {
			page, err := a.b.Members(w.Context(), from, 1)
			testbed.NoError(w, err)
			if len(page) == 0 {
				break
			}
			nonces = append(nonces, string(page[0].Nonce))
			from = string(page[0].Nonce + "\x00")
		}
		w.want(slices.Equal(nonces, []string{"2", "5"}), "members %q are listed; want 2 and 5, which have not expired", nonces)
	})
}
