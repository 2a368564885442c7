package curator

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// deleteAll is zkCli's deleteall.
func deleteAll(t testing.TB, admin *zk.Conn, path string) {
	t.Helper()
	nodes, _, err := admin.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		deleteAll(t, admin, path+"/"+n)
	}
	if err := admin.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
}

// An operator deletes all records at once. Their holders may still believe that they lead,
// so a challenger that finds no record observes for the longest TTL, although nothing tells
// how many records there were, and even if their parent was created again. Then the
// elections continue.
func TestDeletedRecordsAreObservedForMaxTTL(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		o := shared(t)
		o.Layout = layout
		a, b, c := newClient(t, "a", o), newClient(t, "b", o), newClient(t, "c", o)
		if first := b.observeOne(t, "jobs"); first.ObserveFor != 0 {
			t.Fatalf("%s: where nothing ever was, nothing is to be watched: %+v", layout, first)
		}
		held := a.win(t, "jobs")
		if first := b.observeOne(t, "other"); first.ObserveFor != 0 {
			t.Fatalf("%s: where no record was ever deleted, nothing is to be watched: %+v", layout, first)
		}
		deleteAll(t, dial(t, o.Servers), o.Root+"/record")
		want := b.Guarantees().MaxTTL
		seen := b.observeOne(t, "jobs")
		if seen.ObserveFor != want && seen.ObserveFor != backend.ExpiresInStore {
			t.Errorf("%s: want b to wait for a, for %v, got %+v", layout, want, seen)
		}
		if got, err := b.try(backend.Lease{Election: "jobs", Version: seen.Version}); err != nil || got.Outcome != backend.Refused {
			t.Fatalf("%s: b's bid without an observation: want refused, got %+v, %v", layout, got, err)
		}
		if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
			t.Fatalf("%s: a renewal without a record: want refused, got %+v, %v", layout, answers, err)
		}
		if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
			t.Fatal(err)
		}
		won := b.win(t, "jobs") // which creates the records' parent again
		if won.Term <= held.Term {
			t.Errorf("%s: want a term above %d, got %+v", layout, held.Term, won)
		}
		if seen := c.observeOne(t, "third"); seen.ObserveFor != want {
			t.Errorf("%s: another election, whose record may have been deleted: want it watched for %v, got %+v", layout, want, seen)
		}
		b.keep(t, won)
		if records, err := c.List(t.Context(), "", 10); err != nil || !slices.ContainsFunc(records, func(r backend.Record) bool { return r.Election == "jobs" }) {
			t.Errorf("%s: records: %+v, %v", layout, records, err)
		}
	}
}

// A grant behind another program's node that is about to be taken back is not shown: that
// program leads.
func TestAGrantThatIsAboutToBeTakenBackIsNotShown(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	text, _, err := admin.Get(a.layout.recordPath("jobs"))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := parseRecord(text, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	queueForeign(t, admin, a.layout, "jobs")
	id := a.session.id()
	if err := a.makeLockNode(t.Context(), a.session, id, a.bid(held)); err != nil {
		t.Fatal(err)
	}
	rec.Holder.Node = a.lockOf("jobs").namePrefix
	if _, err := admin.Set(a.layout.recordPath("jobs"), rec.encode(), -1); err != nil {
		t.Fatal(err)
	}
	if seen := b.observeOne(t, "jobs"); seen.Holder.ID != "java" || seen.ObserveFor != backend.ExpiresInStore {
		t.Errorf("want the other program shown as leader, got %+v", seen)
	}
}

// A waiting candidate that can only fail leaves the queue.
func TestACandidateThatCanOnlyFailLeavesTheQueue(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*backend.Bid){
		"a record that cannot be read": func(*backend.Bid) {
			if _, err := admin.Set(a.layout.recordPath("jobs"), []byte("?"), -1); err != nil {
				t.Fatal(err)
			}
		},
		"a session that is too short": func(bid *backend.Bid) { bid.TTL, bid.Renew = 13900*time.Millisecond, 3*time.Second },
	} {
		text, _, err := admin.Get(a.layout.recordPath("jobs"))
		if err != nil {
			t.Fatal(err)
		}
		java := queueForeign(t, admin, a.layout, "jobs")
		if got, err := a.try(a.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
			t.Fatalf("a bid behind another program: want refused, got %+v, %v", got, err)
		}
		bid := a.bid(backend.Lease{Election: "jobs"})
		spoil(&bid)
		bid.Expected = a.observeOne(t, "jobs") // reads the edit
		answers, err := a.Acquire(t.Context(), []backend.Bid{bid})
		if err == nil {
			err = answers[0].Err
		}
		if !errors.Is(err, backend.ErrDenied) {
			t.Fatalf("%s: want a bid denied, got %+v, %v", name, answers, err)
		}
		if nodes, _, err := admin.Children(a.layout.lockPath("jobs")); err != nil || len(nodes) != 1 {
			t.Errorf("%s: want the other program's node alone, got %q, %v", name, nodes, err)
		}
		if err := admin.Delete(java, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Set(a.layout.recordPath("jobs"), text, -1); err != nil {
			t.Fatal(err)
		}
	}
}

// An operator deletes a session record and creates another one in its place. The leases
// that depend on it are lost, and then everything continues.
func TestAReplacedSessionRecordLosesItsLeases(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	held := a.winLongSession(t, "jobs")
	a.keep(t, held)
	id := a.session.id()
	path := a.layout.sessionPath(sessionName(id))
	text, _, err := admin.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Create(path, text, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Fatalf("a renewal: want refused, got %+v, %v", answers, err)
	}
	if err := a.release(backend.Lease{Election: "jobs", Holder: a.me, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	a.keep(t, a.win(t, "jobs"))
}

// A member record that belongs to another session, such as the previous one of this
// process, is about to vanish. It is created again.
func TestAMemberRecordOfAnotherSessionIsReplaced(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a, admin := newClient(t, "a", o), dial(t, o.Servers)
	path := a.layout.memberParent + "/" + string(a.me.Nonce)
	for range 2 { // the second time the session exists
		if err := a.announce(t); err != nil {
			t.Fatal(err)
		}
		_, stat, err := admin.Get(path)
		if id := a.session.id(); err != nil || stat.EphemeralOwner != id {
			t.Fatalf("want the member record to belong to session %x, got %+v, %v", id, stat, err)
		}
		if err := admin.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
}
