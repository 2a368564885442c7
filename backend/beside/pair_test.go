package beside_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/beside/besidetest"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
)

// A fleet is members of this module and other programs that share one election, in virtual time.
type fleet struct {
	*testing.T
	store *leasetest.Store
	table *besidetest.Table

	between func()                        // runs between the taking of a lease and that of its lock
	lock    func(beside.Lock) beside.Lock // a broken lock, or none
}

// A member is one member of this module.
type member struct {
	*fleet
	backend.Backend
	inner beside.Inner
	me    backend.Candidate
}

const (
	jobs = "jobs"
	ttl  = 10 * time.Second
)

// start adds a member.
func (f *fleet) start(id string) *member {
	inner, lock := beside.Inner(lease.New(f.store.Driver())), beside.Lock(interrupted{f.table.Lock(), f})
	if f.lock != nil {
		lock = f.lock(lock)
	}
	return &member{f, beside.New(inner, lock), inner, backend.Candidate{ID: id, Nonce: backend.NewNonce()}}
}

// interrupted is a lock that takes a moment, in which others may do something.
type interrupted struct {
	beside.Lock
	f *fleet
}

func (l interrupted) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	if l.f.between != nil {
		l.f.between()
	}
	return l.Lock.Take(ctx, takings)
}

func (l interrupted) Drop(ctx context.Context, owned []beside.Owned) error {
	time.Sleep(100 * time.Millisecond)
	return l.Lock.Drop(ctx, owned)
}

func (m *member) sees() backend.Lease {
	m.Helper()
	seen, err := m.Observe(m.Context(), []backend.Lease{{Election: jobs}})
	if err != nil || len(seen) != 1 {
		m.Fatalf("%s observes one election: %d leases, %v", m.me.ID, len(seen), err)
	}
	return seen[0]
}

// bids bids over what it sees, as if it had observed that for long enough.
func (m *member) bids() backend.Answer {
	m.Helper()
	bid := backend.Bid{Election: jobs, Candidate: m.me, TTL: ttl, Renew: ttl / 3, Expected: m.sees()}
	answers, err := m.Acquire(m.Context(), []backend.Bid{bid})
	if err != nil {
		m.Fatalf("%s bids: %v", m.me.ID, err)
	}
	return answers[0]
}

func (m *member) leads() backend.Lease {
	m.Helper()
	a := m.bids()
	if a.Outcome != backend.Granted {
		m.Fatalf("%s bids: %v, %v, %+v; want granted", m.me.ID, a.Outcome, a.Err, a.Lease)
	}
	return a.Lease
}

func (m *member) releases(l backend.Lease) {
	l.End = backend.Released
	if err := m.Release(m.Context(), []backend.Held{l.Held()}); err != nil {
		m.Error(err)
	}
}

// innerLease reads the inner lease alone.
func (f *fleet) innerLease() backend.Lease {
	found, err := lease.New(f.store.Driver()).Observe(f.Context(), []backend.Lease{{Election: jobs}})
	if err != nil {
		f.Fatal(err)
	}
	return found[0]
}

// rules are what a combiner must do, beside the conformance suite, in which no other program takes part.
var rules = map[string]func(f *fleet){
	"trust has ended before another program leads":        trustEnds,
	"a leader trusts the half that ends first":            trustsTheLesser,
	"there is no mark without a seal":                     marksLast,
	"a lease without its lock is given back":              givesBack,
	"a program that renews in time is not followed":       leavesPrograms,
	"a follower is told when both are free":               toldWhenFree,
	"a dead member's lock is taken with its lease":        takesFromTheDead,
	"no program leads by a lock whose election has moved": sealsFirst,
	"a guard gives back the lock and the lease":           guardReleases,
}

// TestEachBrokenCombinerIsFound of lab/mutants breaks them.
func TestRulesBesideOtherPrograms(t *testing.T) {
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule(&fleet{T: t, store: leasetest.NewStore(), table: besidetest.NewTable(threshold)})
			})
		})
	}
}

func trustEnds(f *fleet) {
	a := f.start("a")
	l := a.leads()
	time.Sleep(ttl * 3 / 5)

	// Its lock is renewed late in the life of the row, by a call of which only the inner half was done.
	if _, err := a.inner.Renew(f.Context(), []backend.Held{l.Held()}); err != nil {
		f.Fatal(err)
	}
	began := time.Now()
	answers, err := a.Renew(f.Context(), []backend.Held{l.Held()})
	if err != nil {
		f.Fatal(err)
	}
	trusted := began.Add(answers[0].ValidFor)
	for !f.table.Run(jobs, "other") {
		time.Sleep(100 * time.Millisecond)
	}
	if time.Now().Before(trusted) {
		f.Errorf("another program leads %v before ValidFor has ended", time.Until(trusted))
	}
}

func trustsTheLesser(f *fleet) {
	f.lock = func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, done: func(results []beside.Result) {
			for i := range results {
				results[i].ValidFor = time.Second
			}
		}}
	}
	a := f.start("a")
	got := a.bids()
	renewed, err := a.Renew(f.Context(), []backend.Held{got.Held()})
	if err != nil {
		f.Fatal(err)
	}
	if got.ValidFor != time.Second || renewed[0].ValidFor != time.Second {
		f.Errorf("a lock that is sure for a second is trusted for %v, and for %v after a renewal", got.ValidFor, renewed[0].ValidFor)
	}
}

func marksLast(f *fleet) {
	full := errors.New("nothing can be written beside the lease")
	f.lock = func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, keep: func(context.Context, beside.Lock, []beside.Owned) error { return full }}
	}
	a := f.start("a")
	held := a.leads()
	held.MovedTo = "elsewhere"
	if got, err := a.Backend.(backend.Marker).Mark(f.Context(), []backend.Held{held.Held()}); !errors.Is(err, full) || got[0].Outcome == backend.Granted {
		f.Errorf("a mark without a seal: %+v, %v", got, err)
	}
	if l := f.innerLease(); l.MovedTo != "" {
		f.Errorf("the lease is marked, and its lock is not sealed: %+v", l)
	}
}

func givesBack(f *fleet) {
	a := f.start("a")
	f.between = func() { f.table.Run(jobs, "other") }
	a.sees()
	if got := a.bids(); got.Outcome != backend.Refused || got.Holder.ID != "other" {
		f.Errorf("another program has been quicker, and the bid is %v: %+v", got.Outcome, got.Lease)
	}
	if l := f.innerLease(); !l.Vacant() {
		f.Errorf("the inner lease is still held: %+v", l)
	}
}

func leavesPrograms(f *fleet) {
	a := f.start("a")
	f.table.Run(jobs, "other")
	before := f.innerLease()
	for range 20 {
		f.table.Run(jobs, "other")
		if got := a.bids(); got.Outcome != backend.Refused {
			f.Errorf("a bid beside a program that leads: %v", got.Outcome)
		}
		time.Sleep(threshold / 4)
	}
	if now := f.innerLease(); now.Term != before.Term {
		f.Errorf("the inner lease was taken, which could not help: %+v", now)
	}
}

func toldWhenFree(f *fleet) {
	a, b := f.start("a"), f.start("b")
	held := a.leads()
	seen := b.sees()
	f.between = func() { time.Sleep(200 * time.Millisecond) } // longer than a lock takes to be given back
	go a.releases(held)

	if err := b.Listen(f.Context(), []backend.Lease{seen}); err != nil {
		f.Fatal(err)
	}
	if got := b.bids(); got.Outcome != backend.Granted {
		f.Errorf("the first bid after the news: %v, %+v", got.Outcome, got.Lease)
	}
	synctest.Wait()
	time.Sleep(time.Second)
}

func takesFromTheDead(f *fleet) {
	a, b := f.start("a"), f.start("b")
	dead := a.leads()
	time.Sleep(ttl)
	l := b.sees()
	if l.Holder != a.me || l.ObserveFor != dead.TTL {
		f.Errorf("a dead member's lease is read as %+v; want it observed for its TTL", l)
	}
	if got := b.bids(); got.Outcome != backend.Granted || got.Term <= dead.Term {
		f.Errorf("a bid after its TTL: %v, term %d after %d", got.Outcome, got.Term, dead.Term)
	}
}

func sealsFirst(f *fleet) {
	a := f.start("a")
	held := a.leads()
	held.MovedTo = "elsewhere"
	got, err := a.Backend.(backend.Marker).Mark(f.Context(), []backend.Held{held.Held()})
	if err != nil || got[0].Outcome != backend.Granted {
		f.Fatalf("a mark: %+v, %v", got, err)
	}
	a.releases(got[0].Lease)
	time.Sleep(2 * threshold)
	if f.table.Run(jobs, "other") {
		f.Errorf("another program leads an election that has moved")
	}
}

func guardReleases(f *fleet) {
	a, guard := f.start("a"), f.start("guard")
	held := a.leads()
	guard.sees()
	dead := held.Held()
	dead.Holder = backend.Candidate{Nonce: held.Holder.Nonce} // a guard knows no more
	if err := guard.Backend.(backend.Adopter).Adopt(held.Holder.Nonce, []backend.Held{dead}); err != nil {
		f.Fatal(err)
	}
	if err := guard.Release(f.Context(), []backend.Held{dead}); err != nil {
		f.Fatal(err)
	}
	if l := f.innerLease(); !l.Vacant() {
		f.Errorf("the lease is still held: %+v", l)
	}
	if !f.table.Run(jobs, "other") {
		f.Errorf("the lock is still held")
	}
}
