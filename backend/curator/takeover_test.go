package curator

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// longSessions returns options for sessions that are much longer than a lease. A test then
// notices a member that waits for a session to end, however busy the machine is.
func longSessions(o Options) Options {
	o.MaxSession = 20 * time.Second
	return o
}

// winLongSession wins an election with a session that lasts for many TTLs.
func (c *client) winLongSession(t testing.TB, name string) backend.Lease {
	t.Helper()
	var answers []backend.Answer
	// An ensemble that has just started may close connections once more.
	testbed.Eventually(t, patience, "a bid is answered", func() (err error) {
		bid := c.bid(c.observeOne(t, name))
		bid.Renew = 6 * ttl
		answers, err = c.Acquire(t.Context(), []backend.Bid{bid})
		return err
	})
	if answers[0].Outcome != backend.Granted {
		t.Fatalf("a bid for a free lease: want granted, got %+v", answers)
	}
	return answers[0].Lease
}

// sessionAlive reports whether the client's session still exists.
func (c *client) sessionAlive(t testing.TB, admin *zk.Conn) bool {
	t.Helper()
	id := c.session.id()
	there, _, err := admin.Exists(c.layout.sessionPath(sessionName(id)))
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// watchLease returns a lease after observing it for its TTL.
func (c *client) watchLease(t testing.TB, name string) backend.Lease {
	t.Helper()
	seen := c.observeOne(t, name)
	if seen.ObserveFor != ttl {
		t.Fatalf("want a lease to be watched for %v, got %+v", ttl, seen)
	}
	pause(t, seen.ObserveFor)
	return seen
}

// A crash leads to a takeover after the TTL, whether or not the ensemble has ended the
// session.
func TestATakeoverDoesNotWaitForTheEnsemble(t *testing.T) {
	t.Parallel()
	reserve(t, 3)
	servers := testbed.StartZooKeeperEnsemble(t, testbed.NewNetwork(t, 3), 3)
	o := longSessions(Options{Servers: testbed.ZooKeeperAddrs(servers), Root: "/crash", Tick: tick})
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	a.keep(t, held)
	a.kill()
	got, err := b.try(b.watchLease(t, "jobs"))
	if err != nil || got.Outcome != backend.Granted || got.Term <= held.Term || got.LastID != a.me.ID || got.End != backend.Failed {
		t.Fatalf("a bid after an observation: want granted after a's leadership has failed, got %+v, %v", got, err)
	}
	if !a.sessionAlive(t, admin) {
		t.Error("the ensemble had ended the session before the takeover")
	}
	if nodes, _, err := admin.Children(b.layout.lockPath("jobs")); err != nil || !slices.Equal(nodes, []string{nodeOf(got.Lease)}) {
		t.Errorf("want the dead holder's node gone from the queue, and b's in it; got %q, %v", nodes, err)
	}
}

// The renewal of a holder that was stopped for longer than its TTL, or that took so long to
// arrive, is refused. Its other leases continue.
func TestARenewalAfterATakeoverIsRefused(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	proxy := testbed.NewProxy(t, o.Servers[0])
	b := newClient(t, "b", o)
	o.Servers = []string{proxy.Addr()}
	a := newClient(t, "a", o)
	held, other := a.winLongSession(t, "jobs"), a.winLongSession(t, "other")

	seen := b.watchLease(t, "jobs")
	late := make(chan []backend.Answer, 1)
	proxy.Hold(true)
	go func() {
		answers, _ := a.renew(held, other)
		late <- answers
	}()
	got, err := b.try(seen)
	proxy.Hold(false)
	if err != nil || got.Outcome != backend.Granted {
		t.Fatalf("a bid after an observation: want granted, got %+v, %v", got, err)
	}
	if answers := <-late; len(answers) == 2 && answers[0].Outcome == backend.Granted {
		t.Fatalf("a renewal that was sent before a takeover and arrived after it was granted: %+v", answers)
	}
	answers, err := a.renew(held, other)
	if err != nil || answers[0].Outcome != backend.Refused || answers[1].Outcome != backend.Granted {
		t.Fatalf("the renewals of the stopped holder: want the lost lease refused and the other one granted; got %+v, %v", answers, err)
	}
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	b.keep(t, got.Lease)
}

// The transaction itself makes the last check: a renewal that comes after the challenger's
// last read undoes the takeover.
func TestARenewalAtTheLastMomentUndoesATakeover(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.winLongSession(t, "jobs")
	b.winLongSession(t, "other") // opens its session
	id := b.session.id()
	snap, err := b.takeSnapshot(t.Context(), b.session, "jobs", watchedRead())
	if err != nil || snap.lease.ObserveFor != ttl {
		t.Fatalf("want a lease to watch, got %+v, %v", snap.lease, err)
	}
	a.keep(t, held)
	if l, done, err := b.grant(t.Context(), b.session, id, b.bid(snap.lease), &snap); err != nil || done {
		t.Fatalf("a takeover from a holder that has renewed since: want no grant, got %+v, %v, %v", l, done, err)
	}
	a.keep(t, held)
	if now := b.observeOne(t, "jobs"); now.Unchanged(snap.lease) {
		t.Errorf("a renewal has not changed what is watched: %+v", now)
	}
	// The renewal of another lease in the same session does not count for this one.
	second := a.winLongSession(t, "second")
	seen := b.observeOne(t, "jobs")
	a.keep(t, second)
	if now := b.observeOne(t, "jobs"); !now.Unchanged(seen) {
		t.Errorf("a renewal of another lease has changed %+v to %+v", seen, now)
	}
}

// Exactly one of the challengers that have observed the same lease is granted it, and
// nothing is left of the others.
func TestOfManyChallengersOneTakesOver(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	a.winLongSession(t, "jobs")
	a.kill()
	const crowd = 6
	seen := newClient(t, "watcher", o).watchLease(t, "jobs")
	answers := make([]backend.Answer, crowd)
	var wg sync.WaitGroup
	for i := range crowd {
		c := newClient(t, "c", o)
		wg.Go(func() { answers[i], _ = c.try(seen) })
	}
	wg.Wait()
	won := slices.DeleteFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Granted })
	if len(won) != 1 {
		t.Fatalf("want one of %d challengers granted, got %d: %+v", crowd, len(won), won)
	}
	nodes, _, err := admin.Children(a.layout.lockPath("jobs"))
	if err != nil || !slices.Equal(nodes, []string{nodeOf(won[0].Lease)}) {
		t.Fatalf("want the winner's node alone in the queue, got %q, %v", nodes, err)
	}
}

// An operator deletes the holder's session record. The holder loses the leases that depend
// on it, and no challenger takes them meanwhile.
func TestALeaseWithoutSessionRecordIsLostNotTaken(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.winLongSession(t, "jobs")
	id := a.session.id()
	if err := dial(t, o.Servers).Delete(a.layout.sessionPath(sessionName(id)), -1); err != nil {
		t.Fatal(err)
	}
	seen := b.observeOne(t, "jobs")
	if seen.Holder != a.me || seen.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("want a's lease to be waited for, got %+v", seen)
	}
	if got, err := b.try(seen); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid: want refused, got %+v, %v", got, err)
	}
	for range 2 { // the second time the session has a record again
		answers, err := a.renew(held)
		if err != nil || answers[0].Outcome != backend.Refused {
			t.Fatalf("a's renewal: want refused, got %+v, %v", answers, err)
		}
	}
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.try(b.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Granted {
		t.Fatalf("b's bid after a's release: want granted, got %+v, %v", got, err)
	}
	a.keep(t, a.winLongSession(t, "other"))
}
