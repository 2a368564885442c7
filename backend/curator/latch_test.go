package curator

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// startLatch starts a member of a Curator LeaderLatch.
func startLatch(t *testing.T, server, path, id string) *testbed.Member {
	t.Helper()
	return testbed.StartJavaMember(t, testbed.JavaOptions{Kind: "latch", Server: server, Path: path, ID: id, Session: 15 * time.Second})
}

// A Go member waits behind a Java leader and follows it. A Java member waits behind a Go
// leader, whose renewals do not use up its watch, and follows it.
func TestALeaderLatchFollowsAndIsFollowed(t *testing.T) {
	t.Parallel()
	o := shared(t)
	path := o.ZooKeeper.Root + "/app/latch"
	o.Paths = map[string]string{"jobs": path}
	java := startLatch(t, o.ZooKeeper.Servers[0], path, "java-1")
	java.Says("leader")

	a := newClient(t, "go-1", o)
	seen := a.observeOne(t, "jobs")
	if seen.Holder.ID != "java-1" {
		t.Fatalf("want java-1 shown as leader, got %+v", seen)
	}
	if got, err := a.try(seen); err != nil || got.Outcome != backend.Refused {
		t.Fatalf("a bid behind java-1: want refused, got %+v, %v", got, err)
	}
	if participants := java.Who(2); participants != "java-1* go-1" {
		t.Errorf("Curator shows %q", participants)
	}
	java.Resign() // it closes its latch
	java.Says("not leader")
	held := a.win(t, "jobs")

	next := startLatch(t, o.ZooKeeper.Servers[0], path, "java-2")
	admin, began := dial(t, o.ZooKeeper.Servers), time.Now()
	for queued := false; !queued; {
		a.keep(t, held)
		nodes, _, err := admin.Children(path)
		if err != nil {
			t.Fatal(err)
		}
		queued = len(nodes) == 2
		if time.Since(began) > patience {
			t.Fatalf("java-2 has not joined within %v", patience)
		}
		pause(t, ttl/6)
	}
	if participants := next.Who(2); participants != "go-1* java-2" {
		t.Errorf("Curator shows %q", participants)
	}
	for range 10 { // while java-2 watches our node
		a.keep(t, held)
	}
	if err := a.Request(t.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "x"}}); err != nil {
		t.Fatal(err)
	}
	a.keep(t, held)
	if err := a.release(backend.Lease{Election: "jobs", Term: held.Term, End: backend.Released}); err != nil {
		t.Fatal(err)
	}
	next.Says("leader")
	if l := a.observeOne(t, "jobs"); l.Holder.ID != "java-2" || l.Term != held.Term {
		t.Errorf("want java-2 shown as leader, in the last known term; got %+v", l)
	}
}
