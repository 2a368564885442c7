package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var memberCases = []Case{
	{Rule: "M1", Name: "an announced member is listed", calls: membersListed,
		Says: "Announce writes the one member record of this process, and Members returns it as it was " +
			"last written. Announce changes no election."},
	{Rule: "M2", Name: "members are ordered and paged", calls: membersPages,
		Says: "Members returns up to limit members with nonces not less than from, in byte order of nonces."},
	{Rule: "M3", Name: "a member's Age grows", calls: membersAge,
		Says: "Age is the time since a member last announced itself, or 0 if the store itself knows that " +
			"it is there. Members may omit a member that has not announced itself for two of its TTLs."},
}

func membersListed(t *Trial, a, b *client) {
	held := a.win("jobs")
	m := backend.Member{Candidate: a.candidate, TTL: t.TTL, Stage: "both"}
	for _, metadata := range []string{"first", "second\nline"} {
		m.Metadata = metadata
		m.Elections = backend.ElectionList(7, func(yield func(string) bool) { // as many as fit
			for yield(metadata[:5] + strings.Repeat("Ω", 100)) {
			}
		})
		must(a.Announce(t.callContext(), m), "announce")
		members := b.members("", 10)
		require(equal(len(members), 1, "members"))
		got := members[0]
		got.Age = 0
		require(equal(got.Candidate, m.Candidate, "member"),
			equal(got.Stage, m.Stage, "stage"),
			equal(got.Elections, m.Elections, "elections"),
			equal(got.TTL, m.TTL, "TTL"))
	}
	b.shows("an announcement", held)
	require(equal(len(b.list("", 10)), 1, "records"))
}

func membersPages(t *Trial, _, _ *client) {
	var want []string
	var clients []*client
	for i := range 7 {
		c := t.client(fmt.Sprintf("c%d", i))
		clients = append(clients, c)
		want = append(want, string(c.candidate.Nonce))
	}
	slices.Sort(want)
	for _, limit := range []int{1, 3, 7, 500} {
		for _, c := range clients { // Members may omit one that has been silent for two TTLs
			c.announce()
		}
		nonce := func(m backend.Member) string { return string(m.Nonce) }
		got := allPages(limit, 3*len(want), clients[0].members, nonce)
		if !slices.Equal(got, want) {
			fail("pages of %d: expected nonces %q, got %q", limit, want, got)
		}
	}
}

func membersAge(t *Trial, a, b *client) {
	age := func() time.Duration {
		members := b.members("", 10)
		require(equal(len(members), 1, "members after an announcement"))
		return members[0].Age
	}
	t.checkAge(t.TTL/2, t.TTL/10, a.announce, age, t.KnowsMembers)
	t.checkAge(0, t.TTL/10, a.announce, age, t.KnowsMembers)

	t.sleep(3 * t.TTL)
	for _, m := range b.members("", 10) { // none: Members may omit it
		grown := m.Age > 2*t.TTL || t.KnowsMembers && m.Age == 0
		require(expect(grown, m.Age, "an Age above %v after three TTLs without an announcement", 2*t.TTL))
	}
}
