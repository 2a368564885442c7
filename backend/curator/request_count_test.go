package curator

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/lab/testbed"
)

// Kinds of requests.
const opGetData, opSync, opGetChildren, opMulti = 4, 9, 12, 14

// A requestMeter counts requests by kind.
type requestMeter struct{ *testbed.ZooKeeperMeter }

func newMeter(t testing.TB, server string) *requestMeter {
	return &requestMeter{testbed.NewZooKeeperMeter(t, server)}
}

// takeCounts returns the requests since the last call.
func (m *requestMeter) takeCounts() map[int32]int {
	counts, _ := m.Take()
	return counts
}

// expect fails the test unless exactly these requests were made since the last call.
func (m *requestMeter) expect(t testing.TB, what string, want map[int32]int) {
	t.Helper()
	if asked := m.takeCounts(); !maps.Equal(asked, want) {
		t.Errorf("%s: want the requests %v (by kind), got %v", what, want, asked)
	}
}

// A renewal is one write, for any number of leases. A read that finds them renewed is one
// request, and one that finds nothing new is two more. An announcement adds nothing to
// either.
func TestRequestsOfIdleCalls(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	leads, follows := newMeter(t, o.Servers[0]), newMeter(t, o.Servers[0])
	o.Servers = []string{leads.Addr}
	a := newClient(t, "a", o)
	o.Servers = []string{follows.Addr}
	b := newClient(t, "b", o)
	names := []string{"jobs", "mail", "news"}
	var held, seen []backend.Lease
	for _, name := range names {
		held = append(held, a.winLongSession(t, name))
	}
	for _, c := range []*client{a, b} {
		if err := c.announce(t); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		seen = append(seen, b.observeOne(t, name))
	}
	leads.takeCounts()
	follows.takeCounts()
	for range 3 {
		answers, err := a.renew(held...)
		if err != nil || answers[0].Outcome != backend.Granted {
			t.Fatalf("renew: %+v, %v", answers, err)
		}
		leads.expect(t, "a renewal of three leases", map[int32]int{opMulti: 1})
		changed, err := b.Observe(t.Context(), seen)
		if err != nil || len(changed) != len(names) {
			t.Fatalf("a reading after a renewal: want %d changed leases, got %+v, %v", len(names), changed, err)
		}
		follows.expect(t, "a reading of three leases that were renewed", map[int32]int{opGetData: 1})
		for i := range changed {
			if changed[i].Version != answers[i].Version {
				t.Fatalf("want the Version of the renewal, got %+v instead of %+v", changed[i], answers[i].Lease)
			}
		}
		seen = changed
	}
	if changed, err := b.Observe(t.Context(), seen); err != nil || len(changed) != 0 {
		t.Fatalf("a reading without a renewal: want nothing changed, got %+v, %v", changed, err)
	}
	follows.expect(t, "a reading of leases that were not renewed", map[int32]int{opGetData: 2, opSync: 1})
	a.keep(t, held[0])
	leads.takeCounts()
	for what, c := range map[*requestMeter]*client{leads: a, follows: b} {
		for _, want := range []map[int32]int{{opGetData: 1}, {}} { // the first leaves a watch
			if err := c.announce(t); err != nil {
				t.Fatal(err)
			}
			what.expect(t, "an announcement of "+c.me.ID+", whom the servers have just answered", want)
		}
	}
}

// A grant of a lease that was read before is one transaction, if no node was created in the
// queue since. Otherwise the grant reads the queue, even if the other node is gone.
func TestRequestsOfAGrant(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	admin, m := dial(t, o.Servers), newMeter(t, o.Servers[0])
	o.Servers = []string{m.Addr}
	a := newClient(t, "a", o)
	held := a.winLongSession(t, "jobs")
	for what, c := range map[string]struct {
		meanwhile func()
		want      map[int32]int
	}{
		"nothing has happened": {func() {}, map[int32]int{opMulti: 1}},
		"another node came and went": {func() {
			if err := admin.Delete(queueForeign(t, admin, a.layout, "jobs"), -1); err != nil {
				t.Fatal(err)
			}
		}, map[int32]int{opMulti: 1, opGetChildren: 1}},
	} {
		if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
			t.Fatal(err)
		}
		id, snap := a.freeSnapshot(t, "jobs")
		c.meanwhile()
		m.takeCounts()
		l, done, err := a.grant(t.Context(), a.session, id, a.bid(snap.lease), &snap)
		if err != nil || !done {
			t.Fatalf("%s: want the grant made, got %+v, %v, %v", what, l, done, err)
		}
		m.expect(t, "a grant when "+what, c.want)
		held = l
	}
}

// A list makes one request for the names, two for each election, and one for each session
// that leads.
func TestRequestsOfAList(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, m := newClient(t, "a", o), newMeter(t, o.Servers[0])
	o.Servers = []string{m.Addr}
	b := newClient(t, "b", o)
	for _, name := range []string{"jobs", "mail", "news"} {
		a.winLongSession(t, name)
	}
	for range 2 { // the first leaves nothing behind that would change the cost of the next
		m.takeCounts()
		list, err := b.List(t.Context(), "", 100)
		if err != nil || len(list) != 3 {
			t.Fatalf("want three records, got %+v, %v", list, err)
		}
		m.expect(t, "a list of three elections with one leader", map[int32]int{opSync: 1, opGetChildren: 1 + 3, opGetData: 3 + 1})
	}
}

// A process whose session lives is a member without further writes. Its record is written
// when it changes. When it stops calling, it is no longer a member.
func TestAMemberLivesAsLongAsItsSession(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	path := a.layout.memberParent + "/" + string(a.me.Nonce)
	m := backend.Member{Candidate: a.me, TTL: ttl}
	announce := func() {
		t.Helper()
		a.keep(t, held)
		if err := a.Announce(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	shows := func() backend.Member {
		t.Helper()
		members, err := b.Members(t.Context(), string(a.me.Nonce), 1)
		if err != nil || len(members) != 1 || members[0].Candidate != a.me {
			t.Fatalf("want a among the members, got %+v, %v", members, err)
		}
		return members[0]
	}
	announce()
	_, first, err := admin.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pause(t, ttl)
		announce()
		if m := shows(); m.Age != 0 {
			t.Errorf("want a member of which the store itself knows, got %+v", m)
		}
	}
	if _, now, err := admin.Get(path); err != nil || now.Mzxid != first.Mzxid {
		t.Errorf("a member record was written that need not be: %+v, %v", now, err)
	}
	m.Stage = "both"
	announce()
	if got := shows(); got.Stage != m.Stage {
		t.Errorf("a new stage must be written: want %q, got %+v", m.Stage, got)
	}
	if err := admin.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, "a member record that was deleted to be made again", func() error {
		announce()
		_, _, err := admin.Get(path)
		return err
	})
	// A member record without a session makes no member.
	text, _, err := admin.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	planted := string(backend.NewNonce())
	if _, err := admin.Create(a.layout.memberParent+"/"+planted, text, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if members, err := b.Members(t.Context(), planted, 1); err != nil || len(members) > 0 && string(members[0].Nonce) == planted {
		t.Errorf("a planted record is listed: %+v, %v", members, err)
	}
	testbed.Eventually(t, patience, "a silent member to be forgotten", func() error {
		if members, err := b.Members(t.Context(), string(a.me.Nonce), 1); err != nil || len(members) > 0 {
			return fmt.Errorf("%+v, %w", members, err)
		}
		return nil
	})
}

func (c *client) announce(t testing.TB) error {
	return c.Announce(t.Context(), backend.Member{Candidate: c.me, TTL: ttl})
}

// An election that is held here is not read, so it is not kept in the cache, however often
// it was read before. Elections that are followed are.
func TestHeldElectionsAreNotCached(t *testing.T) {
	t.Parallel()
	c := newClient(t, "a", shared(t))
	held := c.win(t, "jobs")
	remembers := func(election string) bool {
		_, record := c.session.Watches.Node(ensemble.Data, c.layout.recordPath(election))
		_, lock := c.session.Watches.Node(ensemble.Children, c.layout.lockPath(election))
		return record || lock
	}
	c.observeOne(t, "jobs") // our own grant wakes listeners
	c.observeOne(t, "mail")
	if !remembers("jobs") || !remembers("mail") {
		t.Fatal("what was read is not cached")
	}
	c.keep(t, held)
	if remembers("jobs") {
		t.Error("an election that is held is still cached")
	}
	if !remembers("mail") {
		t.Error("another election is no longer cached")
	}
}

// An idle leader and an idle follower send what their calls need and nothing else, in
// particular no pings. (A busy machine may cause more.)
func TestRequestsOfIdleManagers(t *testing.T) {
	t.Parallel()
	const ttl = wideSession / 2
	o := shared(t)
	leads, follows := newMeter(t, o.Servers[0]), newMeter(t, o.Servers[0])
	o.Servers = []string{leads.Addr}
	_, first := manager(t, "a", ttl, o, "jobs")
	testbed.Eventually(t, patience, "a leader", func() error {
		if !first[0].Leading() {
			return errNone
		}
		return nil
	})
	o.Servers = []string{follows.Addr}
	_, second := manager(t, "b", ttl, o, "jobs")
	testbed.Eventually(t, patience, "the other to know the leader", func() error {
		if _, _, ok := second[0].Leader(); !ok {
			return errNone
		}
		return nil
	})
	testbed.Eventually(t, patience, "a while in which nothing else happens", func() error {
		leads, follows := leads, follows
		if second[0].Leading() { // a busy machine has changed the leader
			leads, follows = follows, leads
		}
		leads.takeCounts()
		follows.takeCounts()
		began := time.Now()
		pause(t, 3*ttl)
		a, b := leads.takeCounts(), follows.takeCounts()
		renewals := int(time.Since(began)/(ttl/3)) + 1
		t.Logf("in %v a leader has asked %v and a follower %v", time.Since(began), a, b)
		if a[opMulti] > renewals || a[opGetData] > 1 || len(a) > 2 {
			return fmt.Errorf("a leader: want at most %d renewals and nothing else, got %v (by kind)", renewals, a)
		}
		// A late renewal is read for again.
		if b[opMulti] > 0 || b[opGetData] > 2*renewals || b[opSync] > renewals/2 || len(b) > 2 {
			return fmt.Errorf("a follower: want no writes, about %d readings and few syncs, got %v (by kind)", renewals, b)
		}
		return nil
	})
}

// The first read opens a session that is long enough for a manager with the default TTL.
func TestTheFirstSessionIsLongEnoughForTheDefaults(t *testing.T) {
	o, err := election.Options{}.Complete(backend.Guarantees{MinTTL: time.Second, MaxTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if need := sessionLength(o.TTL, o.RenewEvery); defaultSession < need || defaultSession > need+time.Millisecond {
		t.Errorf("a session opened by a read has %v; a TTL of %v needs %v", defaultSession, o.TTL, need)
	}
}
