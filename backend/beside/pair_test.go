package beside_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A fleet is members of this module and other programs that share one election, in virtual time.
type fleet struct {
	*testing.T
	store *leasetest.Store
	table *table

	between func()                        // runs between the taking of a lease and that of its lock
	lock    func(beside.Lock) beside.Lock // a broken lock, or none
}

type member struct {
	*fleet
	backend.Backend
	*drivertest.Candidate
	inner beside.Inner
}

const (
	jobs = "jobs"
	ttl  = 10 * time.Second
)

func (f *fleet) start(id string) *member {
	inner := beside.Inner(bare{lease.New(f.store.Driver())})
	lock := beside.Lock(interrupted{f.table.Lock(), f})
	if f.lock != nil {
		lock = f.lock(lock)
	}
	b := whole(inner, lock)
	return &member{f, b, drivertest.NewCandidate(f.T, b, id, ttl), inner}
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

func (f *fleet) innerLease() backend.Lease {
	return drivertest.NewCandidate(f.T, lease.New(f.store.Driver()), "reader", ttl).Sees(jobs)
}

// rules are what a combiner must do, beside the conformance suite, in which no other program takes part.
var rules = map[string]func(f *fleet){
	"trust has ended before another program leads":        trustEnds,
	"a leader trusts the half that ends first":            trustsTheLesser,
	"there is no mark without a seal":                     marksLast,
	"a lease without its lock is given back":              givesBack,
	"a lost lease is lost, whatever the lock":             losesTheLease,
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
				rule(&fleet{T: t, store: leasetest.NewStore(), table: newTable(threshold)})
			})
		})
	}
}

func trustEnds(f *fleet) {
	a := f.start("a")
	l := a.Leads(jobs)
	time.Sleep(ttl * 3 / 5)

	// Its lock is renewed late in the life of the row, by a call of which only the inner half was done.
	if _, err := a.inner.Renew(f.Context(), []backend.Held{l.Held()}); err != nil {
		f.Fatal(err)
	}
	began := time.Now()
	renewed := a.Renews(l)
	if renewed.Err != nil {
		f.Fatal(renewed.Err)
	}
	trusted := began.Add(renewed.ValidFor)
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
	got := a.Bids(a.Sees(jobs))
	renewed := a.Renews(got.Lease)
	if got.ValidFor != time.Second || renewed.ValidFor != time.Second {
		f.Errorf("a lock that is sure for a second is trusted for %v, and for %v after a renewal", got.ValidFor, renewed.ValidFor)
	}
}

func marksLast(f *fleet) {
	full := errors.New("nothing can be written beside the lease")
	f.lock = func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, keep: func(context.Context, beside.Lock, []beside.Owned) error { return full }}
	}
	a := f.start("a")
	held := a.Leads(jobs)
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
	a.Sees(jobs)
	if got := a.Bids(a.Sees(jobs)); got.Outcome != backend.Refused || got.Holder.ID != "other" {
		f.Errorf("another program has been quicker, and the bid is %v: %+v", got.Outcome, got.Lease)
	}
	if l := f.innerLease(); !l.Vacant() {
		f.Errorf("the inner lease is still held: %+v", l)
	}
}

func losesTheLease(f *fleet) {
	a := f.start("a")
	held := a.Leads(jobs)
	depose := backend.Request{Election: jobs, Term: held.Term, Kind: backend.Depose}
	testbed.NoError(f, a.Request(f.Context(), []backend.Request{depose}))
	if got := a.Renews(held); got.Outcome != backend.Refused {
		f.Errorf("a renewal after a deposition: %+v", got)
	}
}

func leavesPrograms(f *fleet) {
	a := f.start("a")
	f.table.Run(jobs, "other")
	before := f.innerLease()
	for range 20 {
		f.table.Run(jobs, "other")
		if got := a.Bids(a.Sees(jobs)); got.Outcome != backend.Refused {
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
	held := a.Leads(jobs)
	seen := b.Sees(jobs)
	f.between = func() { time.Sleep(200 * time.Millisecond) } // longer than a lock takes to be given back
	go a.Resigns(held)

	testbed.NoError(f, b.Listen(f.Context(), []backend.Lease{seen}))
	if got := b.Bids(b.Sees(jobs)); got.Outcome != backend.Granted {
		f.Errorf("the first bid after the news: %v, %+v", got.Outcome, got.Lease)
	}
	synctest.Wait()
	time.Sleep(time.Second)
}

func takesFromTheDead(f *fleet) {
	a, b := f.start("a"), f.start("b")
	dead := a.Leads(jobs)
	time.Sleep(ttl)
	l := b.Sees(jobs)
	if l.Holder != a.Me || l.ObserveFor != dead.TTL {
		f.Errorf("a dead member's lease is read as %+v; want it observed for its TTL", l)
	}
	if got := b.Bids(b.Sees(jobs)); got.Outcome != backend.Granted || got.Term <= dead.Term {
		f.Errorf("a bid after its TTL: %v, term %d after %d", got.Outcome, got.Term, dead.Term)
	}
}

func sealsFirst(f *fleet) {
	a := f.start("a")
	held := a.Leads(jobs)
	held.MovedTo = "elsewhere"
	got, err := a.Backend.(backend.Marker).Mark(f.Context(), []backend.Held{held.Held()})
	if err != nil || got[0].Outcome != backend.Granted {
		f.Fatalf("a mark: %+v, %v", got, err)
	}
	a.Resigns(got[0].Lease)
	time.Sleep(2 * threshold)
	if f.table.Run(jobs, "other") {
		f.Errorf("another program leads an election that has moved")
	}
}

func guardReleases(f *fleet) {
	a, guard := f.start("a"), f.start("guard")
	held := a.Leads(jobs)
	guard.Sees(jobs)
	dead := held.Held()
	dead.Holder = backend.Candidate{Nonce: held.Holder.Nonce} // a guard knows no more
	testbed.NoError(f, guard.Backend.(backend.Adopter).Adopt(held.Holder.Nonce, []backend.Held{dead}))
	testbed.NoError(f, guard.Release(f.Context(), []backend.Held{dead}))
	if l := f.innerLease(); !l.Vacant() {
		f.Errorf("the lease is still held: %+v", l)
	}
	if !f.table.Run(jobs, "other") {
		f.Errorf("the lock is still held")
	}
}
