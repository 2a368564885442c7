package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var observeCases = []Case{
	{Rule: "O1", Name: "a zero lease is always returned", calls: observeZero,
		Says: "Observe always returns a lease that the caller passes with only a name. If the store has no " +
			"record of it, its Term is 0. Observe only reads: it changes no Version and creates no record."},
	{Rule: "O2", Name: "only changed leases are returned", calls: observeChanged,
		Says: "Observe returns only those of the passed leases that have changed, and does not wait if " +
			"none has. A greater Age is no change."},
	{Rule: "O3", Name: "every kind of change is returned", calls: observeEachKind,
		Says: "Observe returns a lease after a grant, a renewal (unless the store expires leases by " +
			"itself), a request, the withdrawal of a request, and a release."},
	{Rule: "O7", Name: "Age is about right", calls: observeAge,
		Says: "Age is how long ago the store believes the lease was last written."},
}

func observeZero(t *Trial, a, b *client) {
	held := a.win("held")
	for range 2 { // the first call must not differ from the next
		got := b.observe(zeroLeases("never", "held", "nor this")...)
		slices.SortFunc(got, func(x, y backend.Lease) int { return strings.Compare(x.Election, y.Election) })
		require(equal(len(got), 3, "leases returned for three zero leases"))
		require(equal(got[0].Election, "held", "first name"), equal(got[0].Holder, a.candidate, "its holder"))
		for i, name := range []string{"never", "nor this"} {
			l := got[i+1]
			require(equal(l.Election, name, "name"), equal(l.Term, 0, "term of %s", name),
				expect(l.Vacant(), l, "a vacant lease"))
		}
	}
	require(equal(a.read("held").Version, held.Version, "Version"), equal(len(a.list("", 10)), 1, "records"))
}

func observeChanged(t *Trial, a, b *client) {
	names := numbered("jobs", 20)
	var held []backend.Lease
	for _, name := range names {
		held = append(held, a.win(name))
	}
	a.renew(held...) // winning 20 leases may have taken long

	seen := b.observe(zeroLeases(names...)...)
	t.sleep(t.TTL / 10)
	began := time.Now()
	require(equal(len(b.observe(seen...)), 0, "leases returned without a change"))
	took := time.Since(began)
	require(expect(took <= t.TTL/8+t.Late, took, "an answer at once"))

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
	require(expect(slices.Equal(changed, want), fmt.Sprint(changed), "the two renewed leases, %v", want))
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

func observeEachKind(t *Trial, a, b *client) {
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

func observeAge(t *Trial, a, b *client) {
	var held backend.Lease
	age := func() time.Duration { return b.read("jobs").Age }
	t.checkAge(t.TTL/2, t.TTL/20, func() { held = a.win("jobs") }, age, false)
	t.checkAge(0, t.TTL/20, func() { a.keep(held) }, age, false)
}

// checkAge writes something, waits and reads its age. The bounds come from readings of the clock before and
// after each call, with some slack. With orZero an age of 0 is right, too.
func (t *Trial) checkAge(wait, slack time.Duration, write func(), read func() time.Duration, orZero bool) {
	before := time.Now()
	write()
	written := time.Now()
	t.sleep(wait)

	slack += t.Late
	least := max(0, time.Since(written)-slack)
	age := read()
	most := time.Since(before) + slack
	right := age >= least && age <= most || orZero && age == 0
	require(expect(right, age, "an Age between %v and %v", least, most))
}
