package conformance

import (
	"fmt"

	"github.com/go-election/go-election/election"
)

var trustCases = []Case{
	{Rule: "S3", Name: "Leading is correct right after a stall", run: safeStall,
		Says: "Leading() compares the clock with the deadline at every call, so it is correct even while the manager's own loop is blocked."},
	{Rule: "S12", Name: "one failing item harms no other election", run: safeItem,
		Says: "An item of a batch that fails does not end the lease of any other election."},
}

func safeItem(t *Trial) {
	n := t.node("a", nil)
	var members []*participant
	for i := range 5 {
		p := n.join(fmt.Sprintf("jobs%d", i))
		p.lead()
		members = append(members, p)
	}
	terms := map[string]uint64{}
	for _, p := range members {
		t.waitForLeader(2*t.takeoverBound(), p)
		terms[p.Name()] = p.Leadership().Term
	}
	n.wire.Decide(func(c Call) Fate {
		if c.Method == "Renew" {
			return Fate{Spoil: []string{"jobs2"}}
		}
		return Fate{}
	})
	t.sleep(3 * t.TTL)
	n.wire.Decide(nil)
	for i, p := range members {
		l := p.Leadership()
		if i != 2 && (l == nil || l.Term != terms[p.Name()]) {
			fail("%s, while the renewals of jobs2 had no outcome: expected term %d to last, got %v", p.Name(), terms[p.Name()], p.events())
		}
	}
	require(expect(members[2].told(election.ReasonUnreachable) || members[2].told(election.ReasonDeadline), members[2].events(), "the event that the leadership of jobs2, whose renewals had no outcome, has ended at its deadline"))
	t.waitForLeader(2*t.takeoverBound(), members[2])
}
