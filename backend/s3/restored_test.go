package s3

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A store is killed, and starts again with an older copy of its files, in which an earlier leader still holds its lease.
// What the copy lacks is lost, but nobody is granted a lease by it.
func TestACopyThatIsRestoredIsWatched(t *testing.T) {
	t.Parallel()
	node := testbed.StartS3(t, testbed.S3Options{})
	o := newOptions(node)
	a, b := open(t, o), open(t, o)
	data, copied := filepath.Join(node.Dir(), "data"), filepath.Join(node.Dir(), "copied")

	first := bid(t, a, "a", read(t, a))
	node.Kill(t)
	if out, err := exec.Command("cp", "-a", data, copied).CombinedOutput(); err != nil { // with the attributes in which a versitygw keeps ETags
		t.Fatalf("%v: %s", err, out)
	}
	node.Start(t)
	if err := a.Release(t.Context(), []backend.Held{first.Held()}); err != nil {
		t.Fatal(err)
	}
	second := bid(t, b, "b", read(t, b))

	node.Kill(t)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, data); err != nil {
		t.Fatal(err)
	}
	node.Start(t)
	for who, c := range map[string]*Backend{"the former leader": a, "the leader": b} {
		if seen := read(t, c); seen.ObserveFor < time.Minute {
			t.Errorf("%s reads %+v; want a lease that is to be watched", who, seen)
		}
	}
	if seen := read(t, open(t, o)); seen.Vacant() || seen.ObserveFor < time.Minute {
		t.Errorf("a newcomer reads %+v; want the lease of the copy", seen)
	}
	for who, held := range map[*Backend]backend.Lease{a: first, b: second} {
		got, err := who.Renew(t.Context(), []backend.Held{held.Held()})
		if err != nil || got[0].Outcome != backend.Refused {
			t.Errorf("a renewal of term %d, which was released or lost: %v, %v", held.Term, got, err)
		}
	}
}

// bid bids on the lease of one election for a minute, which must be granted.
func bid(t *testing.T, b *Backend, id string, expected backend.Lease) backend.Lease {
	t.Helper()
	got, err := b.Acquire(t.Context(), []backend.Bid{{
		Election: "jobs", Candidate: backend.Candidate{ID: id, Nonce: backend.NewNonce()},
		TTL: time.Minute, Renew: 20 * time.Second, Expected: expected,
	}})
	if err != nil || got[0].Outcome != backend.Granted {
		t.Fatalf("a bid of %s: %+v, %v", id, got, err)
	}
	return got[0].Lease
}

// read reads the lease of that election.
func read(t *testing.T, b *Backend) backend.Lease {
	t.Helper()
	seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
	if err != nil {
		t.Fatal(err)
	}
	return seen[0]
}
