package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var memberCases = []Case{
	{Rule: "M1", Name: "an announced member is listed", Run: membersListed,
		Says: "Announce writes the one member record of this process, and Members returns it as it was last written. Announce changes no election."},
	{Rule: "M2", Name: "members are ordered and paged", Run: membersPages,
		Says: "Members returns up to limit members whose nonces are not less than from, in byte order of nonces."},
	{Rule: "M3", Name: "a member's Age grows", Run: membersAge,
		Says: "Age is the time since a member last announced itself, or 0 if the store itself knows that it is there. Members may omit a member that has not announced itself for two of its TTLs."},
}

func membersListed(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	m := backend.Member{Candidate: a.candidate, TTL: t.TTL, Stage: "both"}
	for _, metadata := range []string{"first", "second\nline"} {
		m.Metadata = metadata
		m.Elections = backend.ElectionList(7, func(yield func(string) bool) { // as many as fit
			for yield(metadata[:5] + strings.Repeat("Ω", 100)) {
			}
		})
		a.call("announce", func(ctx context.Context) error { return a.Announce(ctx, m) })
		members := b.members("", 10)
		require(equal("members", len(members), 1))
		got := members[0]
		got.Age = 0
		require(equal("member", got.Candidate, m.Candidate),
			equal("stage", got.Stage, m.Stage),
			equal("elections", got.Elections, m.Elections),
			equal("TTL", got.TTL, m.TTL))
	}
	require(equal("Version of a lease", b.read("jobs").Version, held.Version), equal("records", len(b.list("", 10)), 1))
}

func membersPages(t *Trial) {
	var want []string
	var clients []*client
	for i := range 7 {
		c := t.client(fmt.Sprintf("c%d", i))
		want, clients = append(want, string(c.candidate.Nonce)), append(clients, c)
	}
	slices.Sort(want)
	for _, limit := range []int{1, 3, 7, 500} {
		for _, c := range clients { // Members may omit one that has been silent for two TTLs
			c.announce()
		}
		got := allPages(limit, 3*len(want), clients[0].members, func(m backend.Member) string { return string(m.Nonce) })
		if !slices.Equal(got, want) {
			fail("pages of %d: expected nonces %q, got %q", limit, want, got)
		}
	}
}

func membersAge(t *Trial) {
	a, b := t.client("a"), t.client("b")
	for _, wait := range []time.Duration{t.TTL / 2, 0} {
		before := time.Now()
		a.announce()
		announced := time.Now()
		t.sleep(wait)
		// The bounds come from readings of the clock before and after the call.
		least := time.Since(announced) - t.TTL/10 - t.Late
		members := b.members("", 10)
		require(equal(fmt.Sprintf("members %v after an announcement", wait), len(members), 1))
		most := time.Since(before) + t.TTL/10 + t.Late
		if age := members[0].Age; age < least && !t.known(age) || age > most {
			fail("expected an Age between %v and %v, got %v", least, most, age)
		}
	}
	t.sleep(3 * t.TTL)
	members := b.members("", 10)
	if len(members) > 0 && !t.known(members[0].Age) { // Members may omit it; otherwise its Age must have grown
		require(expect(members[0].Age > 2*t.TTL, fmt.Sprintf("an Age above %v after three TTLs without an announcement", 2*t.TTL), members[0].Age))
	}
}

// known reports whether a member of this Age is there because the store itself knows it.
func (t *Trial) known(age time.Duration) bool { return t.KnowsMembers && age == 0 }
