package curator

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// TestMixedFleets lets processes of this module and of other programs elect one leader
// together. Its fleets run in parallel, but with no other test: Java takes much of a small
// machine when it starts.
func TestMixedFleets(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"LeaderLatch":      mixedLatches,
		"LeaderSelector":   mixedSelectors,
		"OneEphemeralNode": mixedNodes,
		"AssignmentByHand": assignedByHand,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// alternate lets one of their members lead and one of ours follow, and then the other way
// round. Each side is stopped, killed and ended in order, and the other takes over. At no
// time are two of them certain to lead.
//
// start starts another of their members, waits returns when it waits for the leader to go,
// and back brings back a member that was stopped while it led and has been succeeded.
func (f *fleet) alternate(start func() *testbed.Member, waits func(*testbed.Member), back func(*testbed.Member) *testbed.Member) {
	java := start()
	f.Leads(java)
	ours := f.startOurs("go-1")
	ours.Follows(java.ID + " ")

	java.Stop()
	f.Leads(ours)
	java = back(java)
	waits(java)
	ours.Stop()
	f.Leads(java)
	ours.Continue()
	ours.Follows(java.ID + " ")

	java.Kill()
	f.Leads(ours)
	java = start()
	waits(java)
	ours.Resign()
	f.Leads(java)
	ours = f.startOurs("go-2")
	ours.Follows(java.ID + " ")
	java.Resign()
	f.Leads(ours)
	java = start()
	waits(java)
	ours.Kill()
	f.Leads(java)
	f.OneLeaderAtMost()
}

func mixedLatches(t *testing.T) { newLatches(t).mixedCurator("latch") }

func mixedSelectors(t *testing.T) { newSelectors(t).mixedCurator("selector") }

// Curator's recipes queue. A member that was stopped finds out, and queues again.
func (f *fleet) mixedCurator(kind string) {
	n := 0
	f.alternate(func() *testbed.Member {
		n++
		return f.startJava(kind, fmt.Sprintf("java-%d", n))
	}, f.waitQueued, func(java *testbed.Member) *testbed.Member {
		java.Continue()
		java.FindsOut()
		return java
	})
}

// The same with one ephemeral node whose data is the leader's id. A program of this
// kind never learns that its session has ended, so it must be ended after it was stopped.
func mixedNodes(t *testing.T) {
	f := newNodes(t)
	n := 0
	start := func() *testbed.Member {
		n++
		return f.startJava("node", fmt.Sprintf("10.0.0.%d:9090", n))
	}
	f.alternate(start, f.waits, func(java *testbed.Member) *testbed.Member {
		f.waitForData(f.lockPath(), "go-1") // ours
		java.Kill()
		return start()
	})
}

// An operator writes the address of another member into the node. The leader, if it is ours, steps down, as often as
// that is done until the other one leads,
// and there are never two leaders. If the other one belongs to another
// program, it leads as soon as it has read its name, and ours ends within a TTL. If a
// member of ours is named in the node of another program, it waits until that node is gone.
func assignedByHand(t *testing.T) {
	f := newNodes(t)
	const goA, goB, foreign = "10.0.1.1:9090", "10.0.1.2:9090", "10.0.0.1:9090"
	var edits []time.Time
	// assign waits for a node that this address has created, and writes the address into
	// any other.
	assign := func(address string) {
		t.Helper()
		testbed.Eventually(t, patience, "a node of "+address, func() error {
			data, stat, err := f.admin.Get(f.lockPath())
			if err == nil && string(data) != address {
				t.Logf("the node holds %s, and is made to hold %s", data, address)
				edits = append(edits, time.Now())
				_, err = f.admin.Set(f.lockPath(), []byte(address), stat.Version)
			}
			if err == nil && (string(data) != address || stat.Version > 1) {
				err = errNone
			}
			return err
		})
	}
	a := f.startOurs(goA)
	f.Leads(a)
	b := f.startOurs(goB)
	b.Follows(goA)
	assign(goB)
	f.Leads(b)
	f.NeverTwo()

	java := f.startJava("cached", foreign)
	f.waits(java)
	edits = nil
	assign(foreign)
	f.Leads(java)
	for _, edit := range edits {
		for _, own := range f.Beliefs() {
			if own.Ours && own.From.Before(edit) && !own.To.Before(edit.Add(fleetTTL)) {
				t.Errorf("%s has led until %v, though another was named at %v: want less than a TTL", own.ID, own.To, edit)
			}
		}
	}

	t.Logf("the node of %s is made to hold %s", foreign, goA)
	edit := time.Now()
	testbed.Eventually(t, patience, "an edit", func() error {
		_, err := f.admin.Set(f.lockPath(), []byte(goA), -1)
		return err
	})
	java.FindsOut()
	a.Follows(goA) // it has read its own address in a node that is not its own
	ended := time.Now()
	java.Resign()
	f.Leads(a, b)
	for _, own := range f.Beliefs() {
		if own.Ours && own.To.After(edit) && own.From.Before(ended) {
			t.Errorf("%s has led by a node that was not its own, from %v; that node was there until %v", own.ID, own.From, ended)
		}
	}
}
