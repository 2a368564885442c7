package drivertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// A Road moves a fleet from another program's store to a store of this module, and
// back. Members of this module are at a stage of package migration.
type Road struct {
	*testbed.Fleet
	Theirs func(id string) *testbed.Member        // starts a member of the other program
	Ours   func(id, stage string) *testbed.Member // starts a member of this module
	Waits  func(*testbed.Member)                  // waits until a member of the other program queues
	Moved  func() (to string, err error)          // where the election has moved, by the old store
}

// ThereAndBack moves the fleet. Members at stage "both" replace two of the other program, members at stage
// "to" replace those, under kills, and then the fleet moves back. Two members of the other program must not
// lead until the fleet is back: one that was stopped before the others left, and one that starts after they
// left. No two members ever believe at the same time that they lead.
func (r Road) ThereAndBack(t testing.TB) {
	t.Helper()
	theirs := r.Theirs("theirs-1")
	r.Leads(theirs)
	straggler := r.Theirs("theirs-2")
	r.Waits(straggler)
	straggler.Stop()

	both := []*testbed.Member{r.Ours("both-1", "both"), r.Ours("both-2", "both")}
	both[0].Follows(theirs.ID + " ")
	theirs.Kill()
	leader := r.Leads(both...)
	to := []*testbed.Member{r.Ours("to-1", "to"), r.Ours("to-2", "to")}
	to[0].Follows(leader.ID + " ")
	leader.Kill()
	both[1-slices.Index(both, leader)].Resign()
	leader = r.Leads(to...)
	r.moved(t, true)

	straggler.Continue()
	late := r.Theirs("theirs-3")
	r.Waits(late)
	leader.Kill()
	leader = r.Leads(to[1-slices.Index(to, leader)]) // straggler and late had all this time to lead
	for _, m := range []*testbed.Member{straggler, late} {
		if led := m.Led(); len(led) > 0 {
			t.Errorf("%s led by a sealed lease: %v", m.ID, led)
		}
	}

	back := r.Ours("both-3", "both")
	back.Follows(leader.ID + " ")
	leader.Resign()
	r.moved(t, false)
	r.Leads(back, late, straggler)
	back.Resign()
	r.Leads(late, straggler)
	r.OneLeaderAtMost()
}

// moved waits until the old store says that the election has moved, or has not moved.
func (r Road) moved(t testing.TB, want bool) {
	t.Helper()
	testbed.Eventually(t, patience, "a seal, or its end", func() error {
		to, err := r.Moved()
		if err == nil && (to != "") != want {
			err = fmt.Errorf("the old store says that the election has moved to %q", to)
		}
		return err
	})
}
