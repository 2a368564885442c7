package migration_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A candidate has a backend of its own, and no manager.
type candidate struct {
	backend.Backend
	*drivertest.Candidate
}

func newCandidate(t *testing.T, b backend.Backend, id string) *candidate {
	t.Cleanup(func() { b.Close() })
	return &candidate{b, drivertest.NewCandidate(t, b, id, 10*time.Second)}
}

// One lease is lost at a time.
func TestLosingEitherLeaseIsLosing(t *testing.T) {
	for _, which := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, 0)
			holder := newCandidate(t, p.open(t, migration.Both), "holder")
			held := holder.Leads("jobs")
			holder.Keeps(held)
			store := p.old
			if which == "new" {
				store = p.new
			}
			// An operator who uses that store alone.
			operator := newCandidate(t, store.Backend(), "operator")
			testbed.NoError(t, operator.Request(t.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Depose}}))
			if a := holder.Renews(held); a.Outcome != backend.Refused {
				t.Errorf("expected a renewal to be refused after the %s lease was lost, got %v", which, a)
			}
		})
	}
}

// A nominee accepts as soon as one store shows its nomination. The nomination may arrive in
// the other store after the acceptance.
func TestAnAcceptanceInOneStoreCounts(t *testing.T) {
	for _, which := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, 0)
			holder := newCandidate(t, p.open(t, migration.Both), "holder")
			held := holder.Leads("jobs")
			nomination := backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "next"}
			acceptance := nomination
			acceptance.Kind, acceptance.Nonce = backend.Accept, backend.NewNonce()
			first, second := p.old, p.new
			if which == "new" {
				first, second = p.new, p.old
			}
			testbed.NoError(t, newCandidate(t, first.Backend(), "operator").Request(t.Context(), []backend.Request{nomination}))
			testbed.NoError(t, newCandidate(t, second.Backend(), "next").Request(t.Context(), []backend.Request{acceptance}))
			if a := holder.Renews(held); a.Lease.Request.Kind != backend.Accept {
				t.Errorf("expected the holder to receive the acceptance, got %+v", a.Lease.Request)
			}
		})
	}
}

// A store's clock is ahead by more than a bid adds to the term. Or a call has no deadline, and each bid arrives later than the
// term that it asks for.
func TestSlowStoresAgreeOnATerm(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, late := range []time.Duration{0, 5 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(false, skew)
				old, wire := conformance.Wrap(p.old.Backend()), conformance.Wrap(p.new.Backend())
				c := newCandidate(t, road(t, migration.Options{From: old, To: wire, ToName: "new", Stage: both}), "slow")
				c.Limit = time.Hour // as good as none
				free := c.Sees("jobs")
				slow := func(conformance.Call) conformance.Fate { return conformance.Fate{Before: late} }
				old.Decide(slow)
				wire.Decide(slow)
				a := c.Bids(free)
				if o, n := p.terms("jobs"); a.Outcome != backend.Granted || o != a.Term || n != a.Term {
					t.Errorf("the new store's clock is ahead by %v, and calls take %v: want a grant in a term of both stores, got %v, and the terms %d and %d", skew, late, a, o, n)
				}
			})
		}
	}
}

// An expiring backend looks as if it expired leases by itself.
type expiring struct{ Inner }

func (e expiring) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = e.Inner.Observe(ctx, seen)
	for i := range changed {
		if changed[i].ObserveFor > 0 {
			changed[i].ObserveFor = backend.ExpiresInStore
		}
	}
	return changed, err
}

// A process finds that it holds the new lease, while another one leads by the old lease, whoever expires that.
func TestALeftoverHalfIsReleasedAlone(t *testing.T) {
	for what, old := range map[string]func(Inner) backend.Backend{
		"challengers observe":   func(b Inner) backend.Backend { return b },
		"the old store expires": func(b Inner) backend.Backend { return expiring{b} },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(false, 0)
			stranger := newCandidate(t, p.old.Backend(), "stranger")
			held := stranger.Leads("jobs")
			c := newCandidate(t, road(t, migration.Options{From: old(p.old.Backend()), To: p.new.Backend(), ToName: "new", Stage: both}), "both")
			// As a manager does first.
			testbed.NoError(t, c.Announce(t.Context(), backend.Member{Candidate: c.Me, TTL: 10 * time.Second}))
			leftover := newCandidate(t, p.new.Backend(), "both")
			leftover.Me = c.Me // as if an earlier bid had been granted late
			leftover.Leads("jobs")

			seen := c.Sees("jobs")
			if seen.Holder.Nonce != c.Me.Nonce || seen.ObserveFor != 0 {
				t.Fatalf("%s: expected it to find its own leftover, got %+v", what, seen)
			}
			if a := c.Bids(seen); a.Outcome == backend.Granted {
				t.Errorf("%s: expected no grant of a lease that another process leads by, got %+v", what, a)
			}
			stranger.Keeps(held) // it leads by the old store
			if l := leftover.Sees("jobs"); !l.Vacant() {
				t.Errorf("%s: expected the new lease to be released, got %+v", what, l)
			}
		})
	}
}

// The new store is tried with a member record when an election is bid for first. The record must say what was announced: with
// another priority, others would ask this process to step down.
func TestAFirstBidHidesNoPriority(t *testing.T) {
	from, to := memory.New(), memory.New()
	o := migration.Options{From: from.Backend(), To: to.Backend(), ToName: "new", Stage: migration.Both}
	c := newCandidate(t, road(t, o), "a")
	announced := backend.Member{Candidate: c.Me, TTL: 10 * time.Second, Elections: backend.ElectionList(10, slices.Values([]string{"jobs"}))}
	testbed.NoError(t, c.Announce(t.Context(), announced))

	c.Leads("jobs")
	members, err := c.Members(t.Context(), "", 2)
	if err != nil || len(members) != 1 || members[0].Priority() != 10 {
		t.Errorf("after the first bid the members are %+v, %v; want one with the priority 10", members, err)
	}
}
