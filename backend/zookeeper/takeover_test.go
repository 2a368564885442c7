package zookeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// unhurried are options for sessions that are much longer than a lease, so that who
// waits for one to end is found out, however busy the machine.
func unhurried(o Options) Options {
	o.MaxSession = 20 * time.Second
	return o
}

// settleDown wins an election with a session that lasts for many TTLs.
func (c *client) settleDown(t testing.TB, name string) backend.Lease {
	t.Helper()
	var answers []backend.Answer
	// An ensemble that has just begun may close connections once more.
	testbed.Eventually(t, patience, "a bid is answered", func() (err error) {
		bid := c.bid(c.look(t, name))
		bid.Renew = 6 * ttl
		answers, err = c.Acquire(t.Context(), []backend.Bid{bid})
		return err
	})
	if answers[0].Outcome != backend.Granted {
		t.Fatalf("a bid for a free lease: want granted, got %+v", answers)
	}
	return answers[0].Lease
}

// alive reports whether the ensemble has not ended the client's session.
func (c *client) alive(t testing.TB, admin *zk.Conn) bool {
	t.Helper()
	id, _ := c.session.present()
	there, _, err := admin.Exists(c.layout.sessionOf(sessionName(id)))
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// watch returns a lease as it was all the time while it was watched.
func (c *client) watch(t testing.TB, name string) backend.Lease {
	t.Helper()
	seen := c.look(t, name)
	if seen.ObserveFor != ttl {
		t.Fatalf("want a lease to be watched for %v, got %+v", ttl, seen)
	}
	pause(t, seen.ObserveFor)
	return seen
}

// A crash is taken over after the TTL, whatever the ensemble thinks of the session.
func TestATakeOverDoesNotWaitForTheEnsemble(t *testing.T) {
	t.Parallel()
	reserve(t, 3)
	servers := testbed.StartZooKeeperEnsemble(t, testbed.NewNetwork(t, 3), 3)
	o := unhurried(Options{Servers: addresses(servers), Root: "/crash", Tick: tick})
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.settleDown(t, "jobs")
	a.keep(t, held)
	a.kill()
	got, err := b.try(b.watch(t, "jobs"))
	if err != nil || got.Outcome != backend.Granted || got.Term <= held.Term || got.LastNonce != a.me.Nonce || got.End != backend.Failed {
		t.Fatalf("a bid over what was watched: want granted after a's leadership has failed, got %+v, %v", got, err)
	}
	if !a.alive(t, admin) {
		t.Error("the takeover has come so late that the ensemble had ended the session")
	}
	if nodes, _, err := admin.Children(b.layout.lock("jobs")); err != nil || !slices.Equal(nodes, []string{got.Ref}) {
		t.Errorf("want the dead holder's node gone from the queue, and b's in it; got %q, %v", nodes, err)
	}
}

// A holder that was stopped for longer than its TTL, or whose renewal was on its way
// for so long, is refused, and what it has not lost is not touched.
func TestARenewalAfterATakeOverIsRefused(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	proxy := testbed.NewProxy(t, o.Servers[0])
	b := newClient(t, "b", o)
	o.Servers = []string{proxy.Addr()}
	a := newClient(t, "a", o)
	held, other := a.settleDown(t, "jobs"), a.settleDown(t, "other")

	seen := b.watch(t, "jobs")
	late := make(chan []backend.Answer, 1)
	proxy.Hold(true)
	go func() {
		answers, _ := a.renew(held, other)
		late <- answers
	}()
	got, err := b.try(seen)
	proxy.Hold(false)
	if err != nil || got.Outcome != backend.Granted {
		t.Fatalf("a bid over what was watched: want granted, got %+v, %v", got, err)
	}
	if answers := <-late; len(answers) == 2 && answers[0].Outcome == backend.Granted {
		t.Fatalf("a renewal that was sent before a takeover and arrived after it was granted: %+v", answers)
	}
	answers, err := a.renew(held, other)
	if err != nil || answers[0].Outcome != backend.Refused || answers[1].Outcome != backend.Granted {
		t.Fatalf("the renewals of who was stopped: want the lease that was taken over refused, and the other granted; got %+v, %v", answers, err)
	}
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	b.keep(t, got.Lease)
}

// What is checked last is checked by the transaction itself: a renewal that comes
// after the challenger has looked for the last time undoes the takeover.
func TestARenewalAtTheLastMomentUndoesATakeOver(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.settleDown(t, "jobs")
	b.settleDown(t, "other") // its session is there
	id, _ := b.session.present()
	v, err := b.see(t.Context(), b.session, "jobs", watching())
	if err != nil || v.lease.ObserveFor != ttl {
		t.Fatalf("want a lease to watch, got %+v, %v", v.lease, err)
	}
	a.keep(t, held)
	if l, done, err := b.grant(t.Context(), b.session, id, b.bid(v.lease), &v); err != nil || done {
		t.Fatalf("a takeover from who has renewed since: want it undone, got %+v, %v, %v", l, done, err)
	}
	a.keep(t, held)
	if now := b.look(t, "jobs"); now.Unchanged(v.lease) {
		t.Errorf("a renewal has not changed what is watched: %+v", now)
	}
	// A renewal of others in the same session is none of this lease.
	second := a.settleDown(t, "second")
	seen := b.look(t, "jobs")
	a.keep(t, second)
	if now := b.look(t, "jobs"); !now.Unchanged(seen) {
		t.Errorf("a renewal of another lease has changed %+v to %+v", seen, now)
	}
}

// Of challengers that have watched the same lease exactly one is granted, and
// nothing is left of the others.
func TestOfManyChallengersOneTakesOver(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	a.settleDown(t, "jobs")
	a.kill()
	const crowd = 6
	seen := newClient(t, "watcher", o).watch(t, "jobs")
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
	nodes, _, err := admin.Children(a.layout.lock("jobs"))
	if err != nil || !slices.Equal(nodes, []string{won[0].Ref}) {
		t.Fatalf("want the winner's node alone in the queue, got %q, %v", nodes, err)
	}
}

// Somebody deletes the node of the holder's session: the holder loses what hangs on
// it, and nobody takes it meanwhile.
func TestWithoutTheNodeOfItsSessionALeaseIsLostAndNotTaken(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.settleDown(t, "jobs")
	id, _ := a.session.present()
	if err := dial(t, o.Servers).Delete(a.layout.sessionOf(sessionName(id)), -1); err != nil {
		t.Fatal(err)
	}
	seen := b.look(t, "jobs")
	if seen.Holder != a.me || seen.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("want a's lease to be waited for, got %+v", seen)
	}
	if got, err := b.try(seen); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid: want refused, got %+v, %v", got, err)
	}
	for range 2 { // the second time the session has a node again
		answers, err := a.renew(held)
		if err != nil || answers[0].Outcome != backend.Refused {
			t.Fatalf("a's renewal: want refused, got %+v, %v", answers, err)
		}
	}
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.try(b.look(t, "jobs")); err != nil || got.Outcome != backend.Granted {
		t.Fatalf("b's bid after a's release: want granted, got %+v, %v", got, err)
	}
	a.keep(t, a.settleDown(t, "other"))
}

// foreignName is how Curator begins a node's name.
const foreignName = "_c_52b2e703-2eb4-4583-87b0-45e22fd6758d-"

// seesFree looks at an election as a bid does, under the session that it returns.
func (c *client) seesFree(t testing.TB, name string) (id int64, v view) {
	t.Helper()
	id, _ = c.session.present()
	v, err := c.see(t.Context(), c.session, name, watching())
	if err != nil || v.lease.ObserveFor != 0 {
		t.Fatalf("want a free lease, got %+v, %v", v.lease, err)
	}
	return id, v
}

// queueForeign puts a node of another program into a queue.
func queueForeign(t testing.TB, admin *zk.Conn, l layout, election string) (path string) {
	t.Helper()
	path, err := admin.Create(l.lock(election)+"/"+foreignName+l.base, []byte("java"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A member of another program that comes between a look and a grant is first, and
// leads: the grant is taken back before anybody is told, and waits behind it. So it is
// when the queue was made anew meanwhile, with as many nodes made in it as before.
func TestAGrantBehindAnotherProgramIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, admin *zk.Conn, queue string){
		"in the same queue": func(*testing.T, *zk.Conn, string) {},
		"in a queue that was made anew": func(t *testing.T, admin *zk.Conn, queue string) {
			if err := admin.Delete(queue, -1); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Create(queue, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takenBack(t, before)
		})
	}
}

func takenBack(t *testing.T, before func(t *testing.T, admin *zk.Conn, queue string)) {
	o := unhurried(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	held := a.settleDown(t, "jobs")
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	id, v := a.seesFree(t, "jobs")
	before(t, admin, a.layout.lock("jobs"))
	java := queueForeign(t, admin, a.layout, "jobs")
	if l, done, err := a.grant(t.Context(), a.session, id, a.bid(v.lease), &v); err != nil || done {
		t.Fatalf("a grant with another program's node before ours: want it taken back, got %+v, %v, %v", l, done, err)
	}
	seen := a.look(t, "jobs")
	if seen.Holder.ID != "java" || seen.ObserveFor != backend.ExpiresInStore || seen.Term <= held.Term {
		t.Fatalf("want the other program shown as leader, above term %d; got %+v", held.Term, seen)
	}
	if got, err := a.try(seen); err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
		t.Fatalf("a bid behind it: want refused, got %+v, %v", got, err)
	}
	if nodes, _, err := admin.Children(a.layout.lock("jobs")); err != nil || len(nodes) != 2 {
		t.Fatalf("want one node of a's behind the other program's, got %q, %v", nodes, err)
	}
	if err := admin.Delete(java, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := a.try(a.look(t, "jobs")); err != nil || got.Outcome != backend.Granted || got.Term <= seen.Term {
		t.Fatalf("a bid when it has gone: want granted above term %d, got %+v, %v", seen.Term, got, err)
	}
}

// Members of other programs come by another server of an ensemble at the moment of a
// grant, some of them into a queue that was made anew: no grant is told of that stands
// behind one of them.
func TestNoGrantStandsBehindAnotherProgramThatComesAtThatMoment(t *testing.T) {
	t.Parallel()
	reserve(t, 3)
	addrs := addresses(testbed.StartZooKeeperEnsemble(t, testbed.NewNetwork(t, 3), 3))
	o := unhurried(Options{Servers: addrs[:1], Root: "/moment", Tick: tick})
	var first, second atomic.Int32 // how often ours came first, and they
	t.Run("rounds", func(t *testing.T) {
		for i := range 6 {
			t.Run(fmt.Sprint("jobs-", i), func(t *testing.T) {
				t.Parallel()
				a, admin := newClient(t, "a", o), dial(t, addrs[1+i%2:2+i%2])
				a.settleDown(t, fmt.Sprint("jobs-", i))
				for round := range 60 {
					if a.comesWithAnother(t, admin, fmt.Sprint("jobs-", i), round%2 == 1) {
						first.Add(1)
					} else {
						second.Add(1)
					}
				}
			})
		}
	})
	t.Logf("ours came first %d times, they %d times", first.Load(), second.Load())
	if first.Load() == 0 || second.Load() == 0 {
		t.Error("want each to come first at times")
	}
}

// comesWithAnother releases an election and bids for it, while a member of another program
// comes, into a queue that is made anew if that can be. It reports whether the bid was
// granted.
func (a *client) comesWithAnother(t *testing.T, admin *zk.Conn, name string, anew bool) (granted bool) {
	if err := a.release(backend.Lease{Election: name, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Sync("/"); err != nil {
		t.Fatal(err)
	}
	seen, queue, theirs := a.look(t, name), a.layout.lock(name), make(chan string, 1)
	go func() {
		time.Sleep(rand.N(4 * time.Millisecond)) // at any moment
		if anew && admin.Delete(queue, -1) == nil {
			admin.Create(queue, nil, 0, zk.WorldACL(zk.PermAll))
		}
		node, _ := admin.Create(queue+"/"+foreignName+a.layout.base, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		theirs <- node
	}()
	got, err := a.try(seen)
	node := <-theirs
	if err != nil || node == "" {
		t.Fatalf("a bid has failed, or nobody came: %v, %q", err, node)
	}
	granted = got.Outcome == backend.Granted
	if granted && !a.layout.before(got.Ref, path.Base(node)) {
		t.Errorf("a grant stands behind another program's node: %s behind %s", got.Ref, path.Base(node))
	}
	if err := admin.Delete(node, -1); err != nil {
		t.Fatal(err)
	}
	return granted
}

// Behind another program stand a candidate that has died and one that lives. When
// that program goes, the dead one is no matter.
func TestTheNodeOfADeadCandidateIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	dead, b, admin := newClient(t, "dead", o), newClient(t, "b", o), dial(t, o.Servers)
	held := dead.settleDown(t, "jobs")
	java := queueForeign(t, admin, b.layout, "jobs")
	if err := dead.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{dead, b} {
		if got, err := c.try(c.look(t, "jobs")); err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
			t.Fatalf("a bid behind another program: want refused, to wait for it; got %+v, %v", got, err)
		}
	}
	dead.kill()
	if err := admin.Delete(java, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := b.try(b.look(t, "jobs")); err != nil || got.Outcome != backend.Granted {
		t.Fatalf("b's bid: want granted, got %+v, %v", got, err)
	}
	if !dead.alive(t, admin) {
		t.Error("the grant has come so late that the ensemble had ended the dead candidate's session")
	}
}

// A Java member stands behind a Go leader that dies, and a Go member watches that
// leader. The watch ends for the good of the Java member, whose turn it is.
func TestCuratorsLeaderLatchProfitsFromATakeOver(t *testing.T) {
	t.Parallel()
	o := unhurried(shared(t))
	path := o.Root + "/app/latch"
	o.Paths = map[string]string{"jobs": path}
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.settleDown(t, "jobs")
	java := startLatch(t, o.Servers[0], path, "java-1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // until the Java member has started, which takes a while
		for {
			select {
			case <-stop:
				return
			case <-time.After(ttl / 3):
				a.renew(held)
			}
		}
	})
	java.Who(t, 2)
	close(stop)
	wg.Wait()
	a.keep(t, held)
	a.kill()
	got, err := b.try(b.watch(t, "jobs"))
	if err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore || got.Holder.ID != "java-1" {
		t.Fatalf("b's bid: want refused in favour of java-1, got %+v, %v", got, err)
	}
	java.Says(t, "leader")
	if !a.alive(t, admin) {
		t.Error("java-1 has led so late that the ensemble had ended the session")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := b.look(t, "jobs")
	heard := make(chan error, 1)
	go func() { heard <- b.Listen(ctx, []backend.Lease{seen}) }()
	java.Resign()
	java.Says(t, "not leader")
	if err := <-heard; err != nil {
		t.Fatalf("b does not hear that java-1 has gone: %v", err)
	}
	if l := b.win(t, "jobs"); l.Term <= held.Term {
		t.Errorf("want b to lead above term %d, got %+v", held.Term, l)
	}
}
