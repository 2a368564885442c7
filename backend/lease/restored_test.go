package lease_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// restores are the ways in which a store goes back to a snapshot.
var restores = map[string]func(*leasetest.Store, leasetest.Snapshot){
	"in another epoch":  func(s *leasetest.Store, was leasetest.Snapshot) { s.Restore(was, "2") },
	"in the same epoch": func(s *leasetest.Store, was leasetest.Snapshot) { s.GoBack(was) },
}

// eachRestore runs a test in a world for each way to restore a store.
func eachRestore(t *testing.T, test func(w *world, restore func(leasetest.Snapshot))) {
	for how, restore := range restores {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(w *world) { test(w, func(was leasetest.Snapshot) { restore(w.store, was) }) })
		})
	}
}

// The snapshot is from before a released the lease, and b leads when it is restored.
func TestARestoredRecordIsWatchedByAll(t *testing.T) {
	eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		l := a.leads("jobs")
		was := w.store.Snapshot()
		a.releases(l)
		m := b.leads("jobs")
		c.sees("jobs")
		restore(was)
		a.isRefused(l, "what a restored store says may not be the last grant")
		b.isRefused(m, "the store has lost the grant")
		w.meanwhile(func() { c.waits("jobs", greatestTTL, "a restored record is watched for the greatest TTL") })
		a.neverGets("jobs", greatestTTL-time.Second, "a restored leftover is no lease of its holder")
		time.Sleep(2 * time.Second)
	})
}

// The snapshot is of a vacancy before b's grant, and nothing but the term, which b and c have seen, tells that something is
// missing.
func TestAnOlderTermIsWatchedByWhoHasSeenMore(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		a.releases(a.leads("jobs"))
		was := w.store.Snapshot()
		l := b.leads("jobs")
		c.sees("jobs")
		w.store.Restore(was, "1")
		w.meanwhile(func() { c.waits("jobs", greatestTTL, "b may still trust its lease") })
		b.isRefused(l, "the store has lost the grant")
		time.Sleep(time.Second)
	})
}

// The same, and b bids itself: it has led in a greater term, and still does as far as it knows, or has released the lease.
func TestAnOlderTermIsWatchedByWhoHasLedSince(t *testing.T) {
	for _, released := range []bool{false, true} {
		inWorld(t, func(w *world) {
			a, b := w.start("a"), w.start("b")
			a.releases(a.leads("jobs"))
			was := w.store.Snapshot()
			l := b.leads("jobs")
			if released {
				b.releases(l)
			}
			w.store.Restore(was, "1")
			b.waits("jobs", greatestTTL, "the store has lost a grant, and perhaps others")
		})
	}
}

// The snapshot has a's last renewal. b has led since. a notices the restore by a reading, and its renewal is
// refused, or it releases the lease as it was granted.
func TestARestoredSessionRenewsNothing(t *testing.T) {
	for _, renews := range []bool{true, false} {
		eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
			a, b, c := w.start("a"), w.start("b"), w.start("c")
			l := a.leads("jobs")
			was := w.store.Snapshot()
			b.waits("jobs", ttl, "a renews no more")
			a.sees("first")
			c.sees("jobs")
			restore(was)
			a.sees("first")
			if renews {
				a.isRefused(l, "the store has lost a grant")
				l = backend.Lease{Election: "jobs"}
			}
			a.releases(l)
			c.waits("jobs", greatestTTL, "the store has lost a grant")
		})
	}
}

// The holder does not know that another one has taken its lease over since the snapshot.
func TestARestoredLeftoverIsNotGrantedAtOnce(t *testing.T) {
	eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
		a, b := w.start("a"), w.start("b")
		a.leads("jobs")
		was := w.store.Snapshot()
		seen := a.sees("jobs")
		b.waits("jobs", ttl, "it was not renewed")
		a.sees("first") // so that it can tell that the store went back
		restore(was)
		answers, err := a.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "%v, %v: rule violated: a restored leftover may have been led by another since", answers, err)
		a.waits("jobs", greatestTTL, "a restored leftover may have been led by another since")
	})
}

// In the snapshot the election is vacant.
func TestARestoredVacancyIsNotFreeAtOnce(t *testing.T) {
	eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
		a, b := w.start("a"), w.start("b")
		a.releases(a.leads("jobs"))
		b.sees("jobs")
		was := w.store.Snapshot()
		a.leads("jobs")
		b.sees("first") // so that it can tell that the store went back
		restore(was)
		b.waits("jobs", greatestTTL, "a restored vacancy may have been led since")
	})
}

// The holder in the snapshot clears up what it finds under its name, while another process leads.
func TestAReleaseFreesNoRestoredRecord(t *testing.T) {
	eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		was := w.store.Snapshot()
		a.releases(l)
		b.leads("jobs")
		restore(was)
		a.sees("jobs")
		a.releases(backend.Lease{Election: "jobs"})
		w.start("c").waits("jobs", greatestTTL, "a restored record that was released is watched all the same")
	})
}

// In the snapshot the election has no record.
func TestAnElectionLostByARestoreIsWatched(t *testing.T) {
	eachRestore(t, func(w *world, restore func(leasetest.Snapshot)) {
		a, b := w.start("a"), w.start("b")
		was := w.store.Snapshot()
		a.leads("jobs")
		b.sees("first") // so that it can tell that the store went back
		restore(was)
		b.waits("jobs", greatestTTL, "an election without a record may have been led before the restore")
	})
}

// b has read another election of the old store. The new one is empty, and counts nothing.
func TestARebuiltStoreIsWatchedByWhoKnewTheOldOne(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("jobs")
		b.sees("first")
		w.store.Restore(leasetest.Snapshot{}, "2")
		b.waits("jobs", greatestTTL, "an election of a rebuilt store may have been led in the old one")
		b.waits("other", 0, "what was led in the old store has expired")
	})
}

// The other store has elections of its own, which are free there. b has read this one before it is led there.
func TestAnotherStoreIsWatchedThoughItIsInUse(t *testing.T) {
	for what, led := range map[string]string{"vacant": "jobs", "without a record": "others"} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				other := leasetest.NewStore()
				other.Restore(leasetest.Snapshot{}, "2")
				c := w.start("c")
				c.b = lease.New(other.Driver())
				c.releases(c.leads(led))
				clear(c.terms) // of another store

				a, b := w.start("a"), w.start("b")
				b.sees("jobs")
				a.leads("jobs")
				b.wire.Driver = other.Driver()
				b.neverGets("jobs", ttl-time.Second, "a leads in the store that b has read before")
			})
		})
	}
}

// A leader goes on in a rebuilt store with a new session, and only after a watch.
func TestAFormerLeaderCanLeadInARebuiltStore(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		w.store.Restore(leasetest.Snapshot{}, "2")
		a.isRefused(l, "a rebuilt store knows no lease")
		l = a.waits("jobs", greatestTTL, "a rebuilt store may have lost a grant")
		w.meanwhile(func() { b.neverGets("jobs", 20*time.Second, "it leads in the rebuilt store") })
		a.goesOn(30*time.Second, "it leads in the rebuilt store", l)
	})
}

// The store counts versions anew after a restore, and the record of another grant gets the version
// of the vacancy that b remembers. b has heard nothing since.
func TestARememberedVacancyIsComparedByItsValue(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		was := w.store.Snapshot()
		for range 10 {
			a.releases(a.leads("jobs"))
		}
		seen := b.sees("jobs")
		version, _ := w.read(recordOf("jobs"))
		w.store.GoBack(was)
		time.Sleep(greatestTTL) // an operator who restores an older copy must wait so long
		c := w.start("c")
		c.leads("other") // so that it has a session
		for {
			if _, position := w.read(meta); position+1 == number(version) {
				break
			}
			w.store.Delete(recordOf("none"))
		}
		c.leads("jobs")
		now, _ := w.read(recordOf("jobs"))
		w.want(now == version, "the record has version %s, not %s, so this test shows nothing", now, version)
		answers, err := b.bids(seen)
		w.want(err != nil || answers[0].Outcome != backend.Granted, "a bid by a remembered vacancy is granted: %v", answers)
	})
}

// read returns the version of an item, and how much the store has counted.
func (w *world) read(k lease.Key) (version string, position uint64) {
	v, err := w.store.Driver().Read(w.Context(), []lease.Key{k})
	testbed.NoError(w, err)
	return v.Items[0].Version, v.Position
}

func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// Terms are ahead of the clock since a record was deleted. A failover loses a grant, and the former
// server comes back with all that the other one has.
func TestNoTermIsGrantedTwiceAfterAFailback(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("jobs")
		w.store.Delete(recordOf("jobs"))
		b.releases(b.waits("jobs", greatestTTL, "a deleted record is no vacancy"))
		time.Sleep(time.Second)
		was := w.store.Snapshot()
		a.leads("jobs")
		w.store.Restore(was, "2")
		time.Sleep(greatestTTL)
		w.store.Restore(w.store.Snapshot(), "1")
		w.start("c").leads("jobs")
	})
}

// A failover to a server that has all writes: nobody leads in two epochs.
func TestALeaseDoesNotContinueInAnotherEpoch(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		b.sees("jobs")
		w.store.Restore(w.store.Snapshot(), "2")
		a.isRefused(l, "another server may not have all writes")
		l = b.waits("jobs", greatestTTL, "another server may not have all writes")
		b.goesOn(30*time.Second, "it leads in the new epoch", l)
	})
}
