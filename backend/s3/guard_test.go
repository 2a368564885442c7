package s3

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// When a member has died, its guard gives back the lease in the object, and the next one bids without a wait.
func TestAGuardGivesBackTheLease(t *testing.T) {
	t.Parallel()
	o := newOptions(testbed.SharedS3(t))
	acquire := func(id string, expected backend.Lease) backend.Lease {
		t.Helper()
		bid := backend.Bid{Election: "jobs", Candidate: backend.Candidate{ID: id, Nonce: backend.NewNonce()}, TTL: time.Minute, Renew: 20 * time.Second, Expected: expected}
		got, err := open(t, o).Acquire(t.Context(), []backend.Bid{bid})
		if err != nil || got[0].Outcome != backend.Granted {
			t.Fatalf("a bid of %s: %+v, %v", id, got, err)
		}
		return got[0].Lease
	}
	observe := func() backend.Lease {
		t.Helper()
		seen, err := open(t, o).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if err != nil {
			t.Fatal(err)
		}
		return seen[0]
	}

	dead := acquire("a", observe()).Held()
	dead.Holder = backend.Candidate{Nonce: dead.Holder.Nonce} // a guard knows no more
	if seen := observe(); seen.Vacant() || seen.ObserveFor < time.Minute {
		t.Errorf("before the guard's release another member reads %+v; want it held for its TTL", seen)
	}
	guard := open(t, o)
	if err := guard.Adopt(dead.Holder.Nonce, []backend.Held{dead}); err != nil {
		t.Fatal(err)
	}
	if err := guard.Release(t.Context(), []backend.Held{dead}); err != nil {
		t.Fatal(err)
	}
	free := observe()
	if !free.Vacant() || free.ObserveFor != 0 {
		t.Errorf("after the guard's release another member reads %+v; want it free", free)
	}
	if next := acquire("b", free); next.Term <= dead.Term {
		t.Errorf("the next term is %d, after %d", next.Term, dead.Term)
	}
}
