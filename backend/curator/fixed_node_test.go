package curator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// loseSession cuts the client off until it has another session.
func (c *client) loseSession(t testing.TB, proxy *testbed.Proxy, admin *zk.Conn, had int64) {
	t.Helper()
	proxy.Cut(true)
	testbed.Eventually(t, patience, "the end of a session that is cut off", func() error {
		if there, _, err := admin.Exists(c.layout.sessionPath(sessionName(had))); err != nil || there {
			return errors.Join(err, errNone)
		}
		return nil
	})
	proxy.Cut(false)
	testbed.Eventually(t, patience, "another session", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := c.session.Ready(ctx); err != nil {
			return err
		}
		if id := c.session.id(); id == had {
			return errNone
		}
		return nil
	})
}

// A request deletes our node at a fixed path, but our session ends before the request is
// sent, and the node now belongs to another member. The node is left alone. See
// docs/design/curator.md, "Late requests".
func TestALateDeleteLeavesAnotherLeadersNode(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.Layout = Node
	admin := dial(t, o.Servers)
	proxy := testbed.NewProxy(t, o.Servers[0])
	o.Servers = []string{proxy.Addr()}
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	id := a.session.id()
	version, there, err := a.lockNodeVersion(t.Context(), a.session, "jobs", nodeOf(held), sessionName(id))
	if err != nil || !there {
		t.Fatalf("a's own node: %v, %v", there, err)
	}
	a.loseSession(t, proxy, admin, id)
	lock := a.layout.lockPath("jobs")
	if _, err := admin.Create(lock, []byte("java"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, err = a.session.write(t.Context(), a.deleteOps("jobs", nodeOf(held), sessionName(id), version)...)
	if there, _, e := admin.Exists(lock); e != nil || !there || err == nil {
		t.Fatalf("the node of another program was deleted by the earlier owner of the path: %v, %v", err, e)
	}
	// A release finds nothing of ours, and leaves the other node alone.
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if there, _, err := admin.Exists(lock); err != nil || !there {
		t.Fatalf("a's release has deleted another's node (%v)", err)
	}
	if seen := a.observeOne(t, "jobs"); seen.Holder.ID != "java" {
		t.Errorf("want the other program shown as leader, got %+v", seen)
	}
}

// A release deletes our node even if an operator has deleted our session record.
func TestANodeIsReleasedWithoutASessionRecord(t *testing.T) {
	t.Parallel()
	for _, term := range []bool{true, false} {
		o := shared(t)
		o.Layout = Node
		admin := dial(t, o.Servers)
		a := newClient(t, "a", o)
		held := a.win(t, "jobs")
		id := a.session.id()
		if err := admin.Delete(a.layout.sessionPath(sessionName(id)), -1); err != nil {
			t.Fatal(err)
		}
		l := backend.Lease{Election: "jobs", End: backend.Released}
		if term {
			l.Term = held.Term
		}
		if err := a.release(l); err != nil {
			t.Fatal(err)
		}
		if there, _, err := admin.Exists(a.layout.lockPath("jobs")); err != nil || there {
			t.Fatalf("after a release in term %d: a's node is there (%v)", l.Term, err)
		}
		a.keep(t, a.win(t, "jobs"))
	}
}

// The library opens another session between a read and the creation of our node, which then
// belongs to that session. The node is ours all the same, and is not forgotten.
func TestANodeThatWasMadeInANewSessionIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Node, Latch} {
		for _, release := range []bool{true, false} {
			o := shared(t)
			o.Layout = layout
			admin := dial(t, o.Servers)
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			a.keep(t, a.win(t, "other")) // opens its session
			id := a.session.id()
			err := a.makeLockNode(t.Context(), a.session, id-1, a.bid(backend.Lease{Election: "jobs"}))
			if layout == Node && !errors.Is(err, backend.ErrUnavailable) || layout != Node && err != nil {
				t.Fatalf("%s: a node that was made in another session: %v", layout, err)
			}
			if release {
				if err := a.release(backend.Lease{Election: "jobs", End: backend.Released}); err != nil {
					t.Fatal(err)
				}
				left := layout == Node
				if left {
					left, _, err = admin.Exists(a.layout.lockPath("jobs"))
				} else if nodes, _, e := admin.Children(a.layout.lockPath("jobs")); e != nil || len(nodes) > 0 {
					left, err = true, e
				}
				if left || err != nil {
					t.Fatalf("%s: our node is left over and forgotten (%v)", layout, err)
				}
				b.win(t, "jobs")
			} else {
				a.keep(t, a.win(t, "jobs"))
			}
		}
	}
}

// One node at a path and with data of the user's choice, as in FireflySoft and other
// programs. What counts is which node it is, not its data.
func TestAFixedNodeIsKnownByItsCzxid(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.Layout, o.Data = Node, "address"
	o.Path, o.Last = o.Root+"x/services/{election}", o.Root+"x/last/{election}"
	const name = "AccountService:1.0.0"
	a, b := newClient(t, "a", o), newClient(t, "b", o)
	held := a.win(t, name)
	admin := dial(t, o.Servers)
	lock := o.Root + "x/services/" + name
	data, stat, err := admin.Get(lock)
	if err != nil || string(data) != a.me.Address || stat.EphemeralOwner == 0 {
		t.Fatalf("want an ephemeral node with %q, got %q, %+v, %v", a.me.Address, data, stat, err)
	}
	if last, _, err := admin.Get(o.Root + "x/last/" + name); err != nil || string(last) != a.me.Address {
		t.Fatalf("want the last winner noted, got %q, %v", last, err)
	}
	if got, err := b.try(b.observeOne(t, name)); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("b's bid: %+v, %v", got, err)
	}
	a.keep(t, held)
	// An operator replaces the node by another one with a's own data.
	if err := admin.Delete(lock, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Create(lock, []byte(a.me.Address), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if answers, err := a.renew(held); err != nil || answers[0].Outcome != backend.Refused {
		t.Fatalf("a's renewal with another node in place of its own: want refused, got %+v, %v", answers, err)
	}
	if err := a.release(backend.Lease{Election: name, Term: held.Term, End: backend.Failed}); err != nil {
		t.Fatal(err)
	}
	if there, _, err := admin.Exists(lock); err != nil || !there {
		t.Fatalf("a's release has deleted another's node (%v)", err)
	}
	if err := admin.Delete(lock, -1); err != nil {
		t.Fatal(err)
	}
	won := b.win(t, name)
	if err := b.release(backend.Lease{Election: name, Term: won.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	if there, _, _ := admin.Exists(lock); there {
		t.Fatal("b's node is there after its release")
	}
}
