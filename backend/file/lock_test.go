//go:build linux || darwin

package file_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
)

// A process that works in the holder's place has the lock too. No other process leads before that one has ended.
func TestASharedLockOutlivesItsHolder(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	if lock, err := a.Lock("jobs"); lock != nil || err != nil {
		t.Fatalf("expected no lock of an election that is not held, got %v, %v", lock, err)
	}
	held := a.Leads("jobs")
	lock, err := a.Lock("jobs")
	if err != nil || lock == nil {
		t.Fatalf("expected the lock, got %v, %v", lock, err)
	}
	file.Die(a.Backend)
	if l := b.Sees("jobs"); l.ObserveFor == 0 {
		t.Errorf("the lease looks free while its lock is held: %+v", l)
	}
	if got := b.Bids(b.Sees("jobs")); got.Outcome != backend.Refused {
		t.Fatalf("expected a bid to be refused while the lock is held, got %v", got.Outcome)
	}
	lock.Close()
	if now := b.Leads("jobs"); now.Term <= held.Term {
		t.Errorf("expected a term above %d, got %d", held.Term, now.Term)
	}
}

// With a release the holder says that the work has ended.
func TestAReleaseEndsASharedLock(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	held := a.Leads("jobs")
	lock, err := a.Lock("jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	a.Resigns(held)
	b.Leads("jobs")
}
