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
	observe := func() backend.Lease { t.Helper(); return read(t, open(t, o)) }

	dead := bid(t, open(t, o), "a", observe()).Held()
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
	if next := bid(t, open(t, o), "b", free); next.Term <= dead.Term {
		t.Errorf("the next term is %d, after %d", next.Term, dead.Term)
	}
}
