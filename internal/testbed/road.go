package testbed

import "fmt"

// A Road is the way of a fleet from another program's store to one of this module's,
// and back. Its members of this module are at a stage of package migration.
type Road struct {
	*Fleet
	Theirs func(id string) *FleetMember        // starts a member of the other program
	Ours   func(id, stage string) *FleetMember // starts one of this module
	Waits  func(*FleetMember)                  // waits until one of theirs has seen that others come first
	Moved  func() (to string, err error)       // where the old store says that the election has moved to
}

// ThereAndBack goes the road. Two of theirs are replaced at stage "both", and those at
// stage "to", under kills; then the fleet goes back. One of theirs that was stopped before
// the others left, and one that starts when they have gone, lead nobody until the fleet
// is back. At no time are two members sure to lead.
func (r Road) ThereAndBack() {
	r.t.Helper()
	theirs := r.Theirs("theirs-1")
	r.Leads(theirs)
	straggler := r.Theirs("theirs-2")
	r.Waits(straggler)
	straggler.Stop()

	both := []*FleetMember{r.Ours("both-1", "both"), r.Ours("both-2", "both")}
	both[0].Follows(theirs.ID + " ")
	theirs.Kill()
	leader := r.Leads(both...)
	to := []*FleetMember{r.Ours("to-1", "to"), r.Ours("to-2", "to")}
	to[0].Follows(leader.ID + " ")
	leader.Kill()
	r.other(both, leader).Resign()
	leader = r.Leads(to...)
	r.moved(true)

	straggler.Continue()
	late := r.Theirs("theirs-3")
	r.Waits(late)
	leader.Kill()
	leader = r.Leads(r.other(to, leader)) // they have had all that time
	for _, m := range []*FleetMember{straggler, late} {
		if led := m.Led(); len(led) > 0 {
			r.t.Errorf("%s has led by what is sealed: %v", m.ID, led)
		}
	}

	back := r.Ours("both-3", "both")
	back.Follows(leader.ID + " ")
	leader.Resign()
	r.moved(false)
	r.Leads(back, late, straggler)
	back.Resign()
	r.Leads(late, straggler)
	r.OneLeaderAtMost()
}

// other is that of two members which is not m.
func (r Road) other(two []*FleetMember, m *FleetMember) *FleetMember {
	if two[0] == m {
		return two[1]
	}
	return two[0]
}

// moved waits until the old store says that the election has moved, or that it has not.
func (r Road) moved(want bool) {
	r.t.Helper()
	Eventually(r.t, fleetLimit, "a seal, or its end", func() error {
		to, err := r.Moved()
		if err == nil && (to != "") != want {
			err = fmt.Errorf("the old store says that the election has moved to %q", to)
		}
		return err
	})
}
