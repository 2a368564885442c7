package electionshard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func TestSharesFollowWeightsAndMoveLittle(t *testing.T) {
	for _, c := range []struct {
		name                 string
		shards               int
		weights, leads, want []int
	}{
		{"one process has all", 5, []int{1}, []int{0}, []int{5}},
		{"an exact quotient", 6, []int{1, 1, 1}, []int{6, 0, 0}, []int{2, 2, 2}},
		{"who leads more keeps the remainder", 7, []int{1, 1, 1}, []int{0, 0, 7}, []int{2, 2, 3}},
		{"else the first ids have it", 8, []int{1, 1, 1}, []int{0, 0, 0}, []int{3, 3, 2}},
		{"fewer shards than processes", 2, []int{1, 1, 1}, []int{0, 0, 1}, []int{1, 0, 1}},
		{"weights", 60, []int{4, 1, 1}, []int{0, 0, 0}, []int{40, 10, 10}},
		{"an exact quotient is not rounded up", 10, []int{5, 3, 2}, []int{9, 0, 0}, []int{5, 3, 2}},
		{"the greatest remainder", 10, []int{1, 2, 4}, []int{0, 0, 0}, []int{1, 3, 6}},
	} {
		members := make([]Member, len(c.weights))
		for i := range members {
			members[i] = Member{ID: fmt.Sprint(i), Weight: c.weights[i], Leads: c.leads[i]}
		}
		setShares(members, c.shards)
		var got []int
		for _, m := range members {
			got = append(got, m.Share)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d shards over weights %v give %v, want %v", c.name, c.shards, c.weights, got, c.want)
		}
	}
}

// A picture describes what the process a sees: the leader of each shard by one letter, a dot for
// vacant, a question mark for not known, and a hash sign for a function of a that still runs.
type picture struct {
	shards    string
	others    string // announced besides a, by one letter each
	now       time.Duration
	vacantFor time.Duration
}

func (c picture) view() *view {
	v := &view{now: c.now, read: true}
	for _, id := range c.others + "a" {
		v.announced = append(v.announced, announcement{string(id), backend.Nonce("nonce of " + string(id)), 1, c.now})
	}
	for _, r := range c.shards {
		s := shard{known: r != '?', leader: strings.Trim(string(r), ".?#"), weight: 1, running: r == '#', since: c.now - c.vacantFor}
		v.shards = append(v.shards, s)
	}
	return v
}

const (
	tick    = time.Second      // RenewEvery
	soon    = time.Minute      // after the start, and before Settle
	settled = 10 * time.Minute // all members have been there for long
)

func plannerFor(shards int, o Options) *planner {
	o, _ = o.complete(3 * tick)
	return newPlanner("a", shards, o, tick)
}

func TestWhoBidsAndWhoStepsDown(t *testing.T) {
	for _, c := range []struct {
		name         string
		before       picture // seen a while ago, if it has shards
		now          picture
		options      Options
		bids, giveUp int
	}{
		{name: "alone it bids for all", now: picture{shards: "......", now: soon}, bids: 6},
		{name: "at its share it does nothing", now: picture{shards: "aaabbb", others: "b", now: soon}},
		{name: "it bids for no more than it lacks", now: picture{shards: "a.....", others: "bc", now: soon}, bids: 1},
		{name: "and for what is vacant only", now: picture{shards: "ccccc.", others: "b", now: soon}, bids: 1},
		{name: "of what is not known it knows nothing", now: picture{shards: "??????", now: soon}},
		{name: "a function that runs is a shard", now: picture{shards: "#.....", others: "bc", now: soon}, bids: 1},
		{name: "when nobody leads it waits for others", now: picture{shards: "......", now: tick / 2}},
		{name: "where others lead it need not", now: picture{shards: "bbbb..", others: "b", now: tick / 2}, bids: 2},
		{name: "beyond the share rounded down if it stays vacant", now: picture{shards: "acab.", others: "bc", now: soon, vacantFor: tick}, bids: 0},
		{name: "an odd shard that stays vacant", now: picture{shards: "ab.", others: "b", now: soon, vacantFor: tick}, bids: 1},
		{name: "beyond its share if nobody bids for long", now: picture{shards: "aaa...", others: "b", now: soon, vacantFor: 6 * tick}, bids: 3},
		{name: "but for Moves at a time", now: picture{shards: "aaa...", others: "b", now: soon, vacantFor: 6 * tick}, options: Options{Moves: 2}, bids: 2},
		{name: "never beyond its Limit", now: picture{shards: "aaa...", now: soon, vacantFor: time.Hour}, options: Options{Limit: 4}, bids: 1},

		{name: "nothing is given up for one who has just come", before: picture{shards: "aaaaaa", now: soon},
			now: picture{shards: "aaaaaa", others: "b", now: soon + tick}},
		{name: "it is for one who stays", before: picture{shards: "aaaaaa", others: "b", now: soon},
			now: picture{shards: "aaaaaa", others: "b", now: settled}, giveUp: 3},
		{name: "Moves at a time", before: picture{shards: "aaaaaa", others: "b", now: soon},
			now: picture{shards: "aaaaaa", others: "b", now: settled}, options: Options{Moves: 2}, giveUp: 2},
		{name: "not if what is vacant is enough for the others", before: picture{shards: "aaaa..", others: "b", now: soon},
			now: picture{shards: "aaaa..", others: "b", now: settled}, giveUp: 1},
		{name: "beyond Limit", before: picture{shards: "aaaabb", others: "bc", now: soon},
			now: picture{shards: "aaaabb", others: "bc", now: settled}, options: Options{Limit: 1}, giveUp: 2},
		{name: "only if the others lack some", before: picture{shards: "aabbbb", others: "b", now: soon},
			now: picture{shards: "aabbbb", others: "b", now: settled}},
		{name: "not to a process that has ended", before: picture{shards: "aaabbb", others: "b", now: settled},
			now: picture{shards: "aaa...", others: "", now: settled + tick}, bids: 3},
	} {
		p := plannerFor(len(c.now.shards), c.options)
		if c.before.shards != "" {
			p.decide(picture{shards: c.before.shards, now: c.before.now}.view()) // the others come after a
			p.decide(c.before.view())
		}
		d := p.decide(c.now.view())
		if len(d.bids) != c.bids || len(d.giveUp) != c.giveUp {
			t.Errorf("%s: %s with others %q: it bids for %d and gives up %d, want %d and %d",
				c.name, c.now.shards, c.now.others, len(d.bids), len(d.giveUp), c.bids, c.giveUp)
		}
	}
}

// A member's announcement outlasts it. When all that it led is vacant it counts no longer, until it announces itself again.
func TestWhoLosesAllIsNoMemberUntilItSpeaksAgain(t *testing.T) {
	p := plannerFor(4, Options{})
	old := picture{shards: "aabb", others: "b", now: soon}
	p.decide(old.view())
	now := picture{shards: "aa..", others: "b", now: soon + 2*tick}.view()
	for i := range now.announced {
		now.announced[i].at = soon
	}
	if d := p.decide(now); len(d.members) != 1 || len(d.bids) != 2 {
		t.Errorf("a process whose leases have expired is one of %d members, and a bids for %d of 2 shards", len(d.members), len(d.bids))
	}
	now.announced[0].at = soon + 3*tick
	now.now = soon + 3*tick
	if d := p.decide(now); len(d.members) != 2 || len(d.bids) != 0 {
		t.Errorf("a process that has announced itself again is one of %d members, and a bids for %d shards", len(d.members), len(d.bids))
	}
}

// A shard that this process had to take beyond its share does not go to and fro.
func TestWhatNobodyElseTookIsKept(t *testing.T) {
	p := plannerFor(6, Options{})
	p.decide(picture{shards: "aaa...", others: "b", now: soon}.view())
	if d := p.decide(picture{shards: "aaa...", others: "b", now: soon, vacantFor: 10 * tick}.view()); len(d.bids) != 3 {
		t.Fatalf("a bids for %d of 3 shards that nobody takes", len(d.bids))
	}
	took := picture{shards: "aaaaaa", others: "b", now: soon + tick}
	p.decide(took.view())
	took.now += 6 * p.Settle
	if d := p.decide(took.view()); len(d.giveUp) != 0 {
		t.Errorf("a gives up %d shards to a process that had not taken them", len(d.giveUp))
	}
	took.now += 3 * p.Settle
	if d := p.decide(took.view()); len(d.giveUp) != 3 {
		t.Errorf("after eight times Settle a gives up %d shards, want 3", len(d.giveUp))
	}
}

// Different processes prefer different shards, so that their bids seldom collide.
func TestProcessesPreferDifferentShards(t *testing.T) {
	first := map[int]int{}
	for i := range 100 {
		o, _ := Options{}.complete(tick)
		first[newPlanner(fmt.Sprint("host-", i), 100, o, tick).preferred[0]]++
	}
	if len(first) < 50 {
		t.Errorf("100 processes prefer %d of 100 shards", len(first))
	}
}

// After a restart of the store nobody may lead for several TTLs. That says nothing about the members,
// so nobody bids beyond its share when it is over; but not for ever, since all others may be unable.
func TestWhileNobodyCanLeadPatienceDoesNotRun(t *testing.T) {
	p := plannerFor(6, Options{})
	p.decide(picture{shards: "aaabbb", others: "b", now: soon}.view())
	none := picture{shards: "......", others: "b", now: soon + tick}
	p.decide(none.view())
	none.now, none.vacantFor = soon+tick+2*p.Patience, 2*p.Patience
	if d := p.decide(none.view()); len(d.bids) != 3 {
		t.Errorf("while nobody leads, a bids for %d shards, want its share of 3", len(d.bids))
	}
	if d := p.decide(picture{shards: "b.....", others: "b", now: none.now + tick/2, vacantFor: 2 * p.Patience}.view()); len(d.bids) != 3 {
		t.Errorf("when the first leads again, a bids for %d shards, want its share of 3", len(d.bids))
	}

	p = plannerFor(2, Options{})
	few := picture{shards: "..", others: "01", now: soon} // the share of a is 0
	p.decide(few.view())
	few.now, few.vacantFor = soon+10*p.Patience, 10*p.Patience
	if d := p.decide(few.view()); len(d.bids) != 2 {
		t.Errorf("when the others have not bid for ten times Patience, a bids for %d of 2 shards", len(d.bids))
	}
}
