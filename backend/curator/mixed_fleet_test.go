package curator

import (
	"fmt"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// TestMixedFleets lets processes of this module and of other programs elect one leader together. Its fleets run in parallel,
// but with no other test: Java takes much of a small machine when it starts.
func TestMixedFleets(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"LeaderLatch":      mixedLatches,
		"LeaderSelector":   mixedSelectors,
		"OneEphemeralNode": mixedNodes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// alternate lets one of their members lead and one of ours follow, and then the other way round. Each side is stopped,
// killed and ended in order, and the other takes over. At no time are two of them certain to lead.
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
