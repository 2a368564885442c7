package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var memberCases = []Case{
	{Rule: "M1", Name: "an announced member is listed", Run: membersListed,
		Says: "Announce writes the one member record of this process, and Members returns it as it was last written."},
	{Rule: "M2", Name: "members are ordered and paged", Run: membersPages,
		Says: "Members returns up to limit members whose nonces are not less than from, in byte order of nonces."},
	{Rule: "M3", Name: "a member's Age grows", Run: membersAge,
		Says: "Age is the time since a member last announced itself, or 0 if the store itself knows that it is there. Members may omit a member that has not announced itself for two of its TTLs."},
	{Rule: "M4", Name: "Announce changes no election", Run: membersTouchNothing,
		Says: "Announce changes no election."},
}

func membersListed(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	m := backend.Member{Candidate: a.candidate, TTL: t.TTL, Stage: "both"}
	for _, metadata := range []string{"first", "second\nline"} {
		m.Metadata = metadata
		m.Elections = backend.ElectionList(7, func(yield func(string) bool) { // as many as fit
			for yield(metadata[:5] + strings.Repeat("Ω", 100)) {
			}
		})
		ctx, cancel := t.callContext()
		err := a.Announce(ctx, m)
		cancel()
		if err != nil {
			return fmt.Errorf("announce: expected no error, got %w", err)
		}
		members := must(b.members("", 10))
		require(equal("members", len(members), 1))
		got := members[0]
		got.Age = 0
		require(equal("member", got.Candidate, m.Candidate),
			equal("stage", got.Stage, m.Stage),
			equal("elections", got.Elections, m.Elections),
			equal("TTL", got.TTL, m.TTL))
	}
	return nil
}

func membersPages(t *Trial) error {
	var want []string
	var clients []*client
	var last *client
	for i := range 7 {
		last = t.client(fmt.Sprintf("c%d", i))
		want, clients = append(want, string(last.candidate.Nonce)), append(clients, last)
	}
	slices.Sort(want)
	for _, limit := range []int{1, 3, 7, 500} {
		for _, c := range clients { // Members may omit one that has been silent for two TTLs
			require(c.announce())
		}
		if got := must(last.readAllMembers(limit)); !slices.Equal(got, want) {
			return fmt.Errorf("pages of %d: expected nonces %q, got %q", limit, want, got)
		}
	}
	return nil
}

// readAllMembers reads the nonces of all members, in pages of up to limit.
func (c *client) readAllMembers(limit int) (got []string, err error) {
	for from := ""; len(got) < 20; {
		members, err := c.members(from, limit)
		if err != nil {
			return nil, err
		}
		if err := expect(len(members) <= limit, fmt.Sprintf("at most %d members", limit), len(members)); err != nil {
			return nil, err
		}
		for _, m := range members {
			got = append(got, string(m.Nonce))
		}
		if len(members) < limit {
			break
		}
		from = string(members[len(members)-1].Nonce) + "\x00"
	}
	return got, nil
}

func membersAge(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	for _, wait := range []time.Duration{t.TTL / 2, 0} {
		before := time.Now()
		require(a.announce())
		announced := time.Now()
		t.sleep(wait)
		// The bounds come from readings of the clock before and after the call.
		least := time.Since(announced) - t.TTL/10 - t.Late
		members := must(b.members("", 10))
		require(equal(fmt.Sprintf("members %v after an announcement", wait), len(members), 1))
		most := time.Since(before) + t.TTL/10 + t.Late
		if age := members[0].Age; age < least && !t.known(age) || age > most {
			return fmt.Errorf("expected an Age between %v and %v, got %v", least, most, age)
		}
	}
	t.sleep(3 * t.TTL)
	members := must(b.members("", 10))
	if len(members) > 0 && !t.known(members[0].Age) { // Members may omit it; otherwise its Age must have grown
		return expect(members[0].Age > 2*t.TTL, fmt.Sprintf("an Age above %v after three TTLs without an announcement", 2*t.TTL), members[0].Age)
	}
	return nil
}

// known reports whether a member of this Age is there because the store itself knows it.
func (t *Trial) known(age time.Duration) bool { return t.KnowsMembers && age == 0 }

func membersTouchNothing(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	require(a.announce(), b.announce())
	now := must(b.read("jobs"))
	records := must(b.list("", 10))
	return errors.Join(equal("Version", now.Version, held.Version), equal("records", len(records), 1))
}
