package leasetest

import (
	"context"
	"slices"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/testrules"
)

// mutants are drivers that break a promise each, with the rule that must find them.
var mutants = []struct {
	name  string
	of    func(*driver) lease.Driver
	rules []string
}{
	{"compares a change before it writes it, in another step",
		changing(func(s *Store, c *lease.Change) lease.Result {
			if !s.holds(c, c.Put) {
				return lease.Result{Outcome: backend.Refused}
			}
			testrules.Meet()
			return s.write(c, nil)
		}),
		[]string{"of two changes over the same items one wins, as a whole"}},
	{"compares what it only checks before it writes, in another step",
		changing(func(s *Store, c *lease.Change) lease.Result {
			if !s.holds(c, nil) {
				return lease.Result{Outcome: backend.Refused}
			}
			testrules.Meet()
			return s.write(c, c.Put)
		}),
		[]string{"of two changes that check what the other puts one wins"}},
	{"writes each item of a change by itself",
		changing(func(s *Store, c *lease.Change) (r lease.Result) {
			for _, p := range c.Put {
				one := s.write(&lease.Change{Put: []lease.Put{p}}, []lease.Put{p})
				r.Outcome, r.Items = one.Outcome, append(r.Items, one.Items...)
				testrules.Meet()
			}
			return r
		}),
		[]string{"a change is done as a whole or not at all", "of two changes over the same items one wins, as a whole"}},
	{"writes what it refuses",
		changing(func(s *Store, c *lease.Change) lease.Result {
			holds := s.holds(c, nil)
			if r := s.write(c, c.Put); holds {
				return r
			}
			return lease.Result{Outcome: backend.Refused}
		}),
		[]string{"a change needs what was read", "of two changes that check what the other puts one wins"}},
	{"grants what it does not write",
		changing(func(s *Store, c *lease.Change) lease.Result {
			s.mu.Lock()
			was := s.entries[c.Put[0].Over.Key]
			s.mu.Unlock()
			r := s.write(c, c.Put)
			if r.Outcome == backend.Granted && was.version > 0 {
				s.mu.Lock()
				s.entries[c.Put[0].Over.Key] = was
				s.mu.Unlock()
			}
			return r
		}),
		[]string{"a change needs what was read", "of two changes that check what the other puts one wins"}},
	{"takes no lock, so that a transaction of somebody else that is rolled back undoes it",
		func(d *driver) lease.Driver { return d },
		[]string{rollsBack}},
	{"does not say that its store went back",
		func(d *driver) lease.Driver { return forgetful{d} },
		[]string{goesBack}},
	{"does not say that somebody else wrote an item",
		reading(func(it *lease.Item) { it.Edited = false }),
		[]string{edits}},
	{"says of every item that it was written just now",
		reading(func(it *lease.Item) { it.Age = 0 }),
		[]string{"an item grows older, or its age is unknown"}},
}

// holds reports whether the checks of a change and these of its puts hold now.
func (s *Store) holds(c *lease.Change, puts []lease.Put) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(c.Check, func(it lease.Item) bool { return s.item(it.Key).Version != it.Version }) &&
		!slices.ContainsFunc(puts, func(p lease.Put) bool { return s.item(p.Over.Key).Version != p.Over.Version })
}

// write makes a change if these of its puts hold.
func (s *Store) write(c *lease.Change, compared []lease.Put) lease.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	bare := &lease.Change{Put: slices.Clone(c.Put)}
	for i, p := range bare.Put {
		if !slices.ContainsFunc(compared, func(q lease.Put) bool { return q.Over.Key == p.Over.Key }) {
			bare.Put[i].Over = s.item(p.Over.Key)
		}
	}
	return s.apply(bare)
}

// rollBackUnlocked is RollBack in a store that lets others write meanwhile.
func (s *Store) rollBackUnlocked(k lease.Key) {
	s.mu.Lock()
	was := s.entries[k]
	s.mu.Unlock()
	testrules.Meet()
	s.mu.Lock()
	s.entries[k] = was
	s.mu.Unlock()
}

func changing(apply func(*Store, *lease.Change) lease.Result) func(*driver) lease.Driver {
	return func(d *driver) lease.Driver { return changer{d, apply} }
}

type changer struct {
	*driver
	apply func(*Store, *lease.Change) lease.Result
}

func (d changer) Write(_ context.Context, _ string, _ int, changes []lease.Change, _ []lease.Item) (w lease.Written, err error) {
	for i := range changes {
		w.Results = append(w.Results, d.apply(d.s, &changes[i]))
	}
	return w, nil
}

func reading(as func(*lease.Item)) func(*driver) lease.Driver {
	return func(d *driver) lease.Driver { return reader{d, as} }
}

type reader struct {
	*driver
	as func(*lease.Item)
}

func (d reader) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.driver.Read(ctx, keys)
	for i := range v.Items {
		d.as(&v.Items[i])
	}
	return v, err
}

type forgetful struct{ *driver }

func (d forgetful) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	d.newest, d.oldUpTo, d.wentBack = 0, 0, 0
	return d.driver.Read(ctx, keys)
}

func (d forgetful) Write(ctx context.Context, epoch string, _ int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	d.newest, d.oldUpTo, d.wentBack = 0, 0, 0
	return d.driver.Write(ctx, epoch, 0, changes, verify)
}

// Each broken driver is found by the rules named for it.
func TestEachBrokenDriverIsFound(t *testing.T) {
	for _, m := range mutants {
		for _, rule := range m.rules {
			t.Run(m.name+"/"+rule, func(t *testing.T) {
				var store *Store
				h := Harness{
					NewStore: func(testing.TB) func(testing.TB) lease.Driver {
						store = NewStore()
						return func(testing.TB) lease.Driver { return m.of(store.Driver().(*driver)) }
					},
					GoBack: func() func() {
						was := store.Snapshot()
						return func() { store.GoBack(was) }
					},
					RollBack: func(k lease.Key) { store.rollBackUnlocked(k) },
					Edit:     func(k lease.Key, text string) { store.Edit(k, func(string) string { return text }) },
				}
				testrules.Find(t, all, rule, h.lab)
			})
		}
	}
}
