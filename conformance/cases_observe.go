package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var observeCases = []Case{
	{Rule: "O1", Name: "a zero lease is always returned", Run: observeZero,
		Says: "Observe always returns a lease that the caller passes with only a name. If the store has no record of it, its Term is 0."},
	{Rule: "O2", Name: "only changed leases are returned", Run: observeChanged,
		Says: "Observe returns only those of the passed leases that have changed. A greater Age is no change."},
	{Rule: "O3", Name: "every kind of change is returned", Run: observeEachKind,
		Says: "Observe returns a lease after a grant, a renewal (unless the store expires leases by itself), a request, the withdrawal of a request, and a release."},
	{Rule: "O4", Name: "Observe does not wait", Run: observeAtOnce,
		Says: "Observe does not wait, whether or not anything has changed."},
	{Rule: "O5", Name: "Observe does not write", Run: observeWritesNothing,
		Says: "Observe only reads: it changes no Version and creates no record."},
	{Rule: "O6", Name: "no change between two calls is lost", Run: observeSequence,
		Says: "A change between two calls for the same elections is in the answer to the second call."},
	{Rule: "O7", Name: "Age is about right", Run: observeAge,
		Says: "Age is how long ago the store believes the lease was last written."},
}

func observeZero(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	must(a.win("held"))
	for range 2 { // the first call must not differ from the next
		got := must(b.observe(zeroLeases("never", "held", "nor this")...))
		slices.SortFunc(got, func(x, y backend.Lease) int { return strings.Compare(x.Election, y.Election) })
		require(equal("leases returned for three zero leases", len(got), 3))
		require(equal("first lease", got[0].Election, "held"), equal("its holder", got[0].Holder, a.candidate))
		for i, name := range []string{"never", "nor this"} {
			l := got[i+1]
			require(equal("name", l.Election, name), equal("term of "+name, l.Term, 0), expect(l.Vacant(), "a vacant lease", l))
		}
	}
	return nil
}

func observeChanged(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	names := numbered("jobs", 20)
	var held []backend.Lease
	for _, name := range names {
		held = append(held, must(a.win(name)))
	}
	must(a.renew(held...)) // winning 20 leases may have taken long

	seen := must(b.observe(zeroLeases(names...)...))
	t.sleep(t.TTL / 10)
	require(equal("leases returned without a change", len(must(b.observe(seen...))), 0))

	for _, i := range []int{17, 3} {
		must(a.keep(seen[i]))
	}
	var changed []string
	for _, l := range must(b.observe(seen...)) {
		changed = append(changed, l.Election)
	}
	slices.Sort(changed)
	want := []string{seen[3].Election, seen[17].Election}
	slices.Sort(want)
	return expect(slices.Equal(changed, want), fmt.Sprintf("the two renewed leases, %v", want), fmt.Sprint(changed))
}

func observeEachKind(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	seen := must(b.read("jobs"))
	var held backend.Lease
	steps := []struct {
		what string
		do   func() error
		is   func(l backend.Lease) bool
	}{
		{"a grant", func() (err error) { held, err = a.win("jobs"); return err }, func(l backend.Lease) bool { return l.Holder == a.candidate && l.Term == held.Term }},
		{"a renewal", func() (err error) { held, err = a.keep(held); return err }, func(l backend.Lease) bool { return l.Version == held.Version }},
		{"a nomination", func() error {
			return b.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"})
		}, func(l backend.Lease) bool { return l.Request.Kind == backend.Nominate && l.Request.ID == "b" }},
		{"its withdrawal", func() error { return b.request(backend.Request{Election: "jobs", Term: held.Term}) }, func(l backend.Lease) bool { return l.Request == backend.Request{} }},
		{"a release", func() error { return a.release(backend.Released, held) }, func(l backend.Lease) bool { return l.Vacant() && l.Term == held.Term }},
	}

	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		got := must(b.observe(seen))
		if len(got) != 1 || !s.is(got[0]) {
			return fmt.Errorf("after %s: expected the changed lease, got %d leases: %+v", s.what, len(got), got)
		}
		seen = got[0]
	}
	return nil
}

func observeAtOnce(t *Trial) error {
	a := t.client("a")
	must(a.win("jobs"))
	seen := must(a.read("jobs"))

	began := time.Now()
	must(a.observe(seen))
	took := time.Since(began)
	return expect(took <= t.TTL/8+t.Late, "an answer at once", took)
}

func observeWritesNothing(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	for range 5 {
		must(b.observe(zeroLeases("jobs", "never")...))
	}

	now := must(a.read("jobs"))
	records := must(a.list("", 10))
	return errors.Join(equal("Version", now.Version, held.Version), equal("records", len(records), 1))
}

func observeSequence(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := map[string]backend.Lease{}
	seen := zeroLeases("one", "two", "three")
	for _, l := range seen {
		held[l.Election] = must(a.win(l.Election))
	}

	for i, name := range []string{"", "two", "", "one", "three", "two"} {
		if name != "" {
			held[name] = must(a.keep(held[name]))
		}
		for _, l := range must(b.observe(seen...)) {
			at := slices.IndexFunc(seen, func(s backend.Lease) bool { return s.Election == l.Election })
			if at < 0 {
				return fmt.Errorf("expected only leases that the call passed, got %+v", l)
			}
			seen[at] = l
		}
		for _, s := range seen {
			require(equal(fmt.Sprintf("call %d: Version of %s", i, s.Election), s.Version, held[s.Election].Version))
		}
	}
	return nil
}

func observeAge(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	before := time.Now()
	held := must(a.win("jobs"))
	won := time.Now()
	t.sleep(t.TTL / 2)

	// The bounds come from readings of the clock before and after the call.
	least := time.Since(won) - t.TTL/20 - t.Late
	now := must(b.read("jobs"))
	most := time.Since(before) + t.TTL/20 + t.Late
	require(expect(now.Age >= least && now.Age <= most, fmt.Sprintf("an Age between %v and %v", least, most), now.Age))

	renewed := time.Now()
	must(a.keep(held))
	fresh := must(b.read("jobs"))
	most = time.Since(renewed) + t.TTL/20 + t.Late
	return expect(fresh.Age >= 0 && fresh.Age <= most, fmt.Sprintf("an Age of at most %v after a renewal", most), fresh.Age)
}
