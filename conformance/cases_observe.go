package conformance

import (
	"errors"
	"fmt"
	"slices"
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
	if _, err := a.win("held"); err != nil {
		return err
	}
	zero := []backend.Lease{{Election: "never"}, {Election: "held"}, {Election: "nor this"}}
	for range 2 { // the first call must not differ from the next
		got, err := b.observe(zero...)
		if err != nil {
			return err
		}
		slices.SortFunc(got, func(x, y backend.Lease) int { return compare(x.Election, y.Election) })
		if err := equal("leases returned for three zero leases", len(got), 3); err != nil {
			return err
		}
		err = errors.Join(equal("first lease", got[0].Election, "held"), equal("its holder", got[0].Holder, a.candidate))
		for i, name := range []string{"never", "nor this"} {
			l := got[i+1]
			err = errors.Join(err, equal("name", l.Election, name), equal("term of "+name, l.Term, 0), expect(l.Vacant(), "a vacant lease", l))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func observeChanged(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	var held, zero []backend.Lease
	for i := range 20 {
		l, err := a.win(fmt.Sprintf("jobs%02d", i))
		if err != nil {
			return err
		}
		held, zero = append(held, l), append(zero, backend.Lease{Election: l.Election})
	}
	if _, err := a.renew(held...); err != nil { // winning 20 leases may have taken long
		return err
	}
	seen, err := b.observe(zero...)
	if err != nil {
		return err
	}
	t.sleep(t.TTL / 10)
	if got, err := b.observe(seen...); err != nil || len(got) != 0 {
		return errors.Join(err, fmt.Errorf("without a change: expected no lease, got %d: %+v", len(got), got))
	}
	for _, i := range []int{17, 3} {
		if _, err := a.changeVisibly(seen[i]); err != nil {
			return err
		}
	}
	got, err := b.observe(seen...)
	if err != nil {
		return err
	}
	var names []string
	for _, l := range got {
		names = append(names, l.Election)
	}
	slices.Sort(names)
	want := []string{seen[3].Election, seen[17].Election}
	slices.Sort(want)
	return expect(slices.Equal(names, want), fmt.Sprintf("the two renewed leases, %v", want), fmt.Sprint(names))
}

func observeEachKind(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	seen, err := b.read("jobs")
	if err != nil {
		return err
	}
	var held backend.Lease
	steps := []struct {
		what string
		do   func() error
		is   func(l backend.Lease) bool
	}{
		{"a grant", func() (err error) { held, err = a.win("jobs"); return err }, func(l backend.Lease) bool { return l.Holder == a.candidate && l.Term == held.Term }},
		{"a renewal", func() (err error) { held, err = a.changeVisibly(held); return err }, func(l backend.Lease) bool { return l.Version == held.Version }},
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
		got, err := b.observe(seen)
		if err != nil {
			return err
		}
		if len(got) != 1 || !s.is(got[0]) {
			return fmt.Errorf("after %s: expected the changed lease, got %d leases: %+v", s.what, len(got), got)
		}
		seen = got[0]
	}
	return nil
}

func observeAtOnce(t *Trial) error {
	a := t.client("a")
	if _, err := a.win("jobs"); err != nil {
		return err
	}
	seen, err := a.read("jobs")
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = a.observe(seen)
	took := time.Since(began)
	return errors.Join(err, expect(took <= t.TTL/8+t.Late, "an answer at once", took))
}

func observeWritesNothing(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for range 5 {
		if _, err := b.observe(backend.Lease{Election: "jobs"}, backend.Lease{Election: "never"}); err != nil {
			return err
		}
	}
	now, err := a.read("jobs")
	records, err2 := a.list("", 10)
	return errors.Join(err, err2, equal("Version", now.Version, held.Version), equal("records", len(records), 1))
}

func observeSequence(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := map[string]backend.Lease{}
	var seen []backend.Lease
	for _, name := range []string{"one", "two", "three"} {
		l, err := a.win(name)
		if err != nil {
			return err
		}
		held[name] = l
		seen = append(seen, backend.Lease{Election: name})
	}
	for i, name := range []string{"", "two", "", "one", "three", "two"} {
		if name != "" {
			l, err := a.mustRenew(held[name])
			if err != nil {
				return err
			}
			held[name] = l
		}
		ctx, cancel := t.callContext()
		changed, err := b.Observe(ctx, seen)
		cancel()
		if err != nil {
			return fmt.Errorf("observe: expected an answer, got %w", err)
		}
		for _, l := range changed {
			at := slices.IndexFunc(seen, func(s backend.Lease) bool { return s.Election == l.Election })
			if at < 0 {
				return fmt.Errorf("expected only leases that the call passed, got %+v", l)
			}
			seen[at] = l
		}
		for _, s := range seen {
			if err := equal(fmt.Sprintf("call %d: Version of %s", i, s.Election), s.Version, held[s.Election].Version); err != nil {
				return err
			}
		}
	}
	return nil
}

func observeAge(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	before := time.Now()
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	won := time.Now()
	t.sleep(t.TTL / 2)
	// The bounds come from readings of the clock before and after the call.
	least := time.Since(won) - t.TTL/20 - t.Late
	now, err := b.read("jobs")
	if err != nil {
		return err
	}
	most := time.Since(before) + t.TTL/20 + t.Late
	err = expect(now.Age >= least && now.Age <= most, fmt.Sprintf("an Age between %v and %v", least, most), now.Age)
	renewed := time.Now()
	if _, err := a.mustRenew(held); err != nil {
		return err
	}
	fresh, err2 := b.read("jobs")
	most = time.Since(renewed) + t.TTL/20 + t.Late
	return errors.Join(err, err2, expect(fresh.Age >= 0 && fresh.Age <= most, fmt.Sprintf("an Age of at most %v after a renewal", most), fresh.Age))
}
