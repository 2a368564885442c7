package consul

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// manyLeases is more leases than one renewal can be pinned to.
const manyLeases = maxPinned + 9

// manyTTL is so long that only the time that a test simulates counts.
const manyTTL = time.Minute

// winAll acquires count elections that are vacant.
func (n *node) winAll(count int, name string) (held []backend.Lease) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	var names []backend.Lease
	for i := range count {
		names = append(names, backend.Lease{Election: fmt.Sprintf("%s%04d", name, i)})
	}
	free, err := n.Observe(ctx, names)
	fatal(n.t, err)
	var bids []backend.Bid
	for _, l := range free {
		bids = append(bids, backend.Bid{Election: l.Election, Candidate: n.me, TTL: manyTTL, Renew: manyTTL / 3, Expected: l})
	}
	answers, err := n.Acquire(ctx, bids)
	fatal(n.t, err)
	for _, a := range answers {
		n.want("a bid", a, backend.Granted)
		held = append(held, a.Lease)
	}
	return held
}

// advance makes a node believe that d has passed since it verified its leases and announced itself.
func (n *node) advance(d time.Duration) {
	b := n.Backend
	b.heartbeats.mu.Lock()
	for name, h := range b.heartbeats.held {
		h.at = h.at.Add(-d)
		b.heartbeats.held[name] = h
	}
	b.heartbeats.mu.Unlock()
	b.announced.mu.Lock()
	b.announced.at = b.announced.at.Add(-d)
	b.announced.mu.Unlock()
}

// wantRefused renews, and fails the test unless exactly the leases in gone are refused.
func (n *node) wantRefused(when string, held []backend.Lease, gone ...string) {
	n.t.Helper()
	for i, a := range n.renew(held...) {
		want := backend.Granted
		if slices.Contains(gone, held[i].Election) {
			want = backend.Refused
		}
		n.want(fmt.Sprintf("%s, a renewal of %s", when, held[i].Election), a, want)
	}
}

// Leading a thousand elections for a TTL costs as many requests as leading ten, and so does following
// them.
func TestAThousandElectionsCostAsManyRequestsAsTen(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	cost := func(n int) (leader, follower int) {
		a, b := l.node(t, "a"), l.node(t, "b")
		held := a.winAll(n, fmt.Sprint(n, " "))
		announce := func() { fatal(t, a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: manyTTL})) }
		announce()
		a.renew(held...)
		seen, err := b.Observe(t.Context(), held)
		fatal(t, err)
		listening, listened := t.Context(), make(chan error, 1)
		go func() { listened <- b.Listen(listening, seen) }()
		testbed.Eventually(t, time.Minute, "b to listen", func() error {
			if b.listenIndex.waitingAfter() == 0 {
				return errors.New("it does not yet")
			}
			return nil
		})
		observe := func() {
			changed, err := b.Observe(t.Context(), seen)
			fatal(t, err)
			if len(changed) != n {
				t.Errorf("%d of %d leases have changed", len(changed), n)
			}
			seen = changed
		}
		a.renew(held...)
		observe()
		a.wire.take()
		b.wire.take()
		for range 2 {
			for range 3 {
				a.advance(manyTTL / 3)
				for _, answer := range a.renew(held...) {
					a.want("a renewal", answer, backend.Granted)
				}
				observe()
			}
			announce()
		}
		leader, follower = len(a.wire.take()), len(b.wire.take())
		t.Logf("%d elections, two TTLs: %d requests of the leader, %d of a follower", n, leader, follower)
		return leader, follower
	}
	leader, follower := cost(10)
	if a, b := cost(1000); a > leader || b > follower {
		t.Errorf("1,000 elections cost %d requests to lead and %d to follow; 10 cost %d and %d", a, b, leader, follower)
	}
}

// The next renewal sees any change that other members make to many leases.
func TestTheNextRenewalSeesWhatMembersChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.winAll(manyLeases, "e")
	a.wantRefused("at first", held)
	a.wire.take()
	a.wantRefused("then", held)
	if n := len(a.wire.take()); n != 1 {
		t.Fatalf("%d requests for a renewal while nothing changes; this test is about one", n)
	}

	fatal(t, b.Request(t.Context(), []backend.Request{{Election: "e0002", Term: held[2].Term, Kind: backend.Depose}}))
	a.wantRefused("after a deposition", held, "e0002")

	fatal(t, b.Request(t.Context(), []backend.Request{{Election: "e0003", Term: held[3].Term, Kind: backend.Accept, ID: "b", Nonce: b.me.Nonce}}))
	if got := a.renew(held...)[3]; got.Outcome != backend.Granted || got.Request.Kind != backend.Accept {
		t.Errorf("after a request the renewal is %+v, want it granted, with the request", got)
	}

	// b takes it over as if it had watched it long enough.
	entries, err := b.read(t.Context(), []string{"e0004"}, true)
	fatal(t, err)
	o := &offer{entry: entries[0], next: held[4].Term + 1, bid: backend.Bid{Election: "e0004", Candidate: b.me, TTL: manyTTL}}
	var answers [1]backend.Answer
	b.enter(t.Context(), "acquire", b.me.Nonce)
	lost, _, err := b.grant(t.Context(), []*offer{o}, answers[:])
	fatal(t, err)
	if lost != nil || answers[0].Outcome != backend.Granted {
		t.Fatalf("a takeover: %v, %v", lost, answers)
	}
	a.wantRefused("after a takeover", held, "e0002", "e0004")

	// Half of the leases are renewed first. The others have not been verified yet.
	_, err = l.root.KV().Delete(l.keys.lock+"e0000", nil)
	fatal(t, err)
	_, err = l.root.KV().Delete(l.keys.term+"e0000", nil)
	fatal(t, err)
	fresh := l.node(t, "fresh") // has never read it
	fresh.win("e0000")
	first := a.renew(append(held[5:], a.winAll(manyLeases, "f")...)...)
	a.want("a renewal of an unchanged lease", first[0], backend.Granted)
	a.wantRefused("after others were renewed", held, "e0000", "e0002", "e0004")
}

// The holder of many leases sees a manual edit of one of them within a TTL. Until then no other member
// takes it.
func TestManualChangesAreSeenWithinATTL(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	kv := admins(t, agent).KV()
	value := func(key string) *api.KVPair {
		pair, _, err := kv.Get(key, nil)
		fatal(t, err)
		return pair
	}
	drop := func(keys ...string) {
		for _, key := range keys {
			_, err := kv.Delete(key, nil)
			fatal(t, err)
		}
	}
	put := func(pair *api.KVPair) {
		_, err := kv.Put(pair, nil)
		fatal(t, err)
	}
	for what, harm := range map[string]func(lock, record string){
		"the lock deleted":   func(lock, _ string) { drop(lock) },
		"the record deleted": func(_, record string) { drop(record) },
		"both deleted":       func(lock, record string) { drop(lock, record) },
		"the lock recreated": func(lock, _ string) { pair := value(lock); drop(lock); put(pair) },
		"the lock edited":    func(lock, _ string) { put(&api.KVPair{Key: lock, Value: []byte("mine")}) },
		"the record edited":  func(_, record string) { put(&api.KVPair{Key: record, Value: []byte("mine")}) },
		"the lock names another session": func(lock, _ string) {
			put(&api.KVPair{Key: lock, Value: []byte(strings.Replace(string(value(lock).Value), `"session":"`, `"session":"0`, 1))})
		},
		"the lock released": func(lock, _ string) { _, _, err := kv.Release(value(lock), nil); fatal(t, err) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, agent) // its own, since the holder would see changes of other members
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.winAll(manyLeases, "e")
			name := held[7].Election
			a.wantRefused("at first", held)
			b.observe(name)
			harm(l.keys.lock+name, l.keys.term+name)
			seen := b.observe(name)
			a.wantRefused("before it looks for manual edits", held)
			if now := b.observe(name); now.ObserveFor < 2*manyTTL && now.Version == seen.Version {
				t.Errorf("challengers see %+v: neither watched for two TTLs nor renewed with the others", now)
			}
			a.advance(manyTTL * verifyAfterSixths / 6)
			a.wantRefused("within a TTL", held, name)
			a.wantRefused("later", held, name)
		})
	}
}

// The next renewal sees the end of the session, also after a new session was made.
func TestManyLeasesEndWithTheirSession(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a := l.node(t, "a")
	held := a.winAll(manyLeases, "e")
	a.wantRefused("at first", held)
	_, err := l.root.Session().Destroy(a.session.get(), nil)
	fatal(t, err)
	var all []string
	for _, h := range held {
		all = append(all, h.Election)
	}
	a.wantRefused("after the session was destroyed", held, all...)
	again := a.winAll(1, "another")
	a.wantRefused("on a new session", append(held, again...), all...)
}

// The index of a prefix goes back when tombstones are removed, and may be what it was before a
// deletion. So a listing that is too old is not used, even if the index is equal.
func TestAnOldListingIsNotComparedByItsIndex(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a := l.node(t, "a")
	held := a.winAll(manyLeases, "e")
	a.wantRefused("at first", held)
	listed := func() (whole bool) {
		for _, r := range a.wire.take() {
			whole = whole || strings.Contains(r.url, "recurse")
		}
		return whole
	}
	listed()
	a.advance(manyTTL)
	a.wantRefused("soon", held)
	if listed() {
		t.Error("all keys were listed though nothing has changed")
	}
	a.snapshot.mu.Lock()
	a.snapshot.at = a.snapshot.at.Add(-maxSnapshotAge)
	a.snapshot.mu.Unlock()
	a.advance(manyTTL)
	a.wantRefused("later", held)
	if !listed() {
		t.Error("an equal index counts as proof after a time in which it can have gone back")
	}
}

// Two members with many elections each share a prefix, and there are changes all the time. Each
// renewal costs a few requests more, and not one for each change.
func TestManyChangesCostFewRequestsPerRenewal(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	mine, theirs := a.winAll(manyLeases, "a"), b.winAll(manyLeases, "b")
	for round := range 5 {
		b.release(backend.Released, theirs[:20]...)
		theirs = append(theirs[20:], b.winAll(20, fmt.Sprint("round ", round, " "))...)
		a.wire.take()
		b.wire.take()
		a.wantRefused("amid changes", mine)
		b.wantRefused("amid changes", theirs)
		if n, m := len(a.wire.take()), len(b.wire.take()); n > 3 || m > 3 {
			t.Errorf("after 40 changes the renewals cost %d and %d requests, want 3 at most", n, m)
		}
	}
}

// One of a hundred leases is deleted, one deposed, and one unlocked manually. Those three are
// refused and the others renewed. The renewals of the others do not keep the refused ones alive.
func TestOnlyLostLeasesOfManyAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	var bids []backend.Bid
	for i := range 100 {
		name := fmt.Sprintf("e%02d", i)
		bids = append(bids, backend.Bid{Election: name, Candidate: a.me, TTL: labTTL, Renew: labTTL / 4, Expected: a.observe(name)})
	}
	answers, err := a.Acquire(t.Context(), bids)
	fatal(t, err)
	held := make([]backend.Lease, len(answers))
	for i, answer := range answers {
		a.want("a bid", answer, backend.Granted)
		held[i] = answer.Lease
	}
	a.renew(held...) // now it has verified them all
	_, err = l.root.KV().Delete(l.keys.lock+"e10", nil)
	fatal(t, err, b.Request(t.Context(), []backend.Request{{Election: "e20", Term: held[20].Term, Kind: backend.Depose}}))
	pair, _, err := l.root.KV().Get(l.keys.lock+"e30", nil)
	fatal(t, err)
	_, _, err = l.root.KV().Release(pair, nil)
	fatal(t, err)
	gone := map[int]bool{10: true, 20: true, 30: true}
	for round := range 2 {
		for i, answer := range a.renew(held...) {
			want := backend.Granted
			if gone[i] {
				want = backend.Refused
			}
			if answer.Outcome != want {
				t.Fatalf("renewal %d of %s: %v (%v), want %v", round, held[i].Election, answer.Outcome, answer.Err, want)
			}
		}
	}
	before := b.observe("e20")
	var rest []backend.Lease
	for i := range held {
		if !gone[i] {
			rest = append(rest, held[i])
		}
	}
	a.renew(rest...)
	if now := b.observe("e20"); !now.Unchanged(before) {
		t.Errorf("a lease that was refused is renewed with the others: %+v, then %+v", before, now)
	}
}
