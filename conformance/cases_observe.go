package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var observeCases = []Case{
	{Rule: "O1", Name: "a zero lease is always returned", Run: observeZero,
		Says: "Observe always returns a lease that the caller passes with only a name. If the store has no record of it, its Term is 0. Observe only reads: it changes no Version and creates no record."},
	{Rule: "O2", Name: "only changed leases are returned", Run: observeChanged,
		Says: "Observe returns only those of the passed leases that have changed, and does not wait if none has. A greater Age is no change."},
	{Rule: "O3", Name: "every kind of change is returned", Run: observeEachKind,
		Says: "Observe returns a lease after a grant, a renewal (unless the store expires leases by itself), a request, the withdrawal of a request, and a release."},
	{Rule: "O7", Name: "Age is about right", Run: observeAge,
		Says: "Age is how long ago the store believes the lease was last written."},
}

func observeZero(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("held")
	for range 2 { // the first call must not differ from the next
		got := b.observe(zeroLeases("never", "held", "nor this")...)
		slices.SortFunc(got, func(x, y backend.Lease) int { return strings.Compare(x.Election, y.Election) })
		require(equal("leases returned for three zero leases", len(got), 3))
		require(equal("first lease", got[0].Election, "held"), equal("its holder", got[0].Holder, a.candidate))
		for i, name := range []string{"never", "nor this"} {
			l := got[i+1]
			require(equal("name", l.Election, name), equal("term of "+name, l.Term, 0), expect(l.Vacant(), "a vacant lease", l))
		}
	}
	require(equal("Version", a.read("held").Version, held.Version), equal("records", len(a.list("", 10)), 1))
}

func observeChanged(t *Trial) {
	a, b := t.client("a"), t.client("b")
	names := numbered("jobs", 20)
	var held []backend.Lease
	for _, name := range names {
		held = append(held, a.win(name))
	}
	a.renew(held...) // winning 20 leases may have taken long

	seen := b.observe(zeroLeases(names...)...)
	t.sleep(t.TTL / 10)
	began := time.Now()
	require(equal("leases returned without a change", len(b.observe(seen...)), 0))
	took := time.Since(began)
	require(expect(took <= t.TTL/8+t.Late, "an answer at once", took))

	for _, i := range []int{17, 3} {
		a.keep(seen[i])
	}
	var changed []string
	for _, l := range b.observe(seen...) {
		changed = append(changed, l.Election)
	}
	slices.Sort(changed)
	want := []string{seen[3].Election, seen[17].Election}
	slices.Sort(want)
	require(expect(slices.Equal(changed, want), fmt.Sprintf("the two renewed leases, %v", want), fmt.Sprint(changed)))
}

// A change is something that a client does, and what others read then.
type change struct {
	what  string
	do    func()
	shows func(l backend.Lease) bool
}

// changes returns every kind of change of an election, to be made one after the other.
func (c *client) changes(name string) []change {
	var held backend.Lease
	nomination := backend.Request{Election: name, Kind: backend.Nominate, ID: "b"}
	return []change{
		{"a grant", func() { held = c.win(name) },
			func(l backend.Lease) bool { return l.Holder == c.candidate && l.Term == held.Term }},
		{"a renewal", func() { held = c.keep(held) },
			func(l backend.Lease) bool { return l.Version == held.Version }},
		{"a request", func() { nomination.Term = held.Term; c.request(nomination) },
			func(l backend.Lease) bool { return l.Request == nomination }},
		{"its withdrawal", func() { c.request(backend.Request{Election: name, Term: held.Term}) },
			func(l backend.Lease) bool { return l.Request == backend.Request{} }},
		{"a release", func() { c.release(backend.Released, held) },
			func(l backend.Lease) bool { return l.Vacant() && l.Term == held.Term }},
	}
}

func observeEachKind(t *Trial) {
	a, b := t.client("a"), t.client("b")
	seen := b.read("jobs")
	for _, s := range a.changes("jobs") {
		s.do()
		got := b.observe(seen)
		if len(got) != 1 || !s.shows(got[0]) {
			fail("after %s: expected the changed lease, got %d leases: %+v", s.what, len(got), got)
		}
		seen = got[0]
	}
}

func observeAge(t *Trial) {
	a, b := t.client("a"), t.client("b")
	before := time.Now()
	held := a.win("jobs")
	won := time.Now()
	t.sleep(t.TTL / 2)

	// The bounds come from readings of the clock before and after the call.
	least := time.Since(won) - t.TTL/20 - t.Late
	now := b.read("jobs")
	most := time.Since(before) + t.TTL/20 + t.Late
	require(expect(now.Age >= least && now.Age <= most, fmt.Sprintf("an Age between %v and %v", least, most), now.Age))

	renewed := time.Now()
	a.keep(held)
	fresh := b.read("jobs")
	most = time.Since(renewed) + t.TTL/20 + t.Late
	require(expect(fresh.Age >= 0 && fresh.Age <= most, fmt.Sprintf("an Age of at most %v after a renewal", most), fresh.Age))
}
