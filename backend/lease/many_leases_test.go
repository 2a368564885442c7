package lease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The heartbeat is written before the records are compared. Those that have changed are refused.
func TestManyLeasesAreComparedAfterTheWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		leases := a.leadsAll(longNames(3*w.store.Limits.Batch, 10))
		a.goesOn(20*time.Second, "many leases are renewed like one", leases...)
		deposed, deleted, edited := leases[3], leases[50], leases[100]
		testbed.NoError(w, b.b.Request(w.Context(), []backend.Request{{Election: deposed.Election, Term: deposed.Term, Kind: backend.Depose}}))
		w.store.Delete(recordOf(deleted.Election))
		w.store.Edit(recordOf(edited.Election), func(text string) string { return text + " " })
		gone := map[string]bool{deposed.Election: true, deleted.Election: true, edited.Election: true}
		var rest []backend.Lease
		for i, a := range a.renews(leases...) {
			w.want((a.Outcome == backend.Refused) == gone[a.Election], "%s is %v: rule violated: only a lease whose record is as it was granted is renewed", a.Election, a.Outcome)
			if !gone[a.Election] {
				rest = append(rest, leases[i])
			}
		}
		w.meanwhile(func() { a.goesOn(greatestTTL+time.Second, "the others go on", rest...) })
		w.meanwhile(func() { b.waits(deposed.Election, ttl, "its last heartbeat is watched for its TTL") })
		c.waits(edited.Election, greatestTTL, "an edited record is watched for the greatest TTL")
		time.Sleep(2 * time.Second)
	})
}

// A driver may tell late that one of many records was deleted. A change that checks it tells at once.
func TestADeletionThatIsNoticedLateIsWatchedLonger(t *testing.T) {
	for most, late := range map[int]time.Duration{30: 0, 60: time.Minute} {
		inWorld(t, func(w *world) {
			w.store.Limits.EditsUnnoticed = time.Minute
			a, b := w.start("a"), w.start("b")
			leases := a.leadsAll(longNames(most, 10))
			deleted := leases[3].Election
			b.sees(deleted)
			w.store.Delete(recordOf(deleted))
			a.wire.late = time.Now().Add(time.Minute)
			w.meanwhile(func() {
				for range 2 * time.Minute / (ttl / 3) {
					a.renews(leases...)
					time.Sleep(ttl / 3)
				}
			})
			b.waits(deleted, greatestTTL+late, "a lease may be renewed for as long as its deletion is not noticed")
		})
	}
}

// A challenger takes one of many leases over between the heartbeat and the comparison.
func TestATakeoverBeforeTheComparisonIsNoticed(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		leases := a.leadsAll(longNames(2*w.store.Limits.Batch, 10))
		lost := leases[7]
		b.waits(lost.Election, ttl, "the leader has stopped")
		answers := a.renews(leases...)
		for i, a := range answers {
			w.want((a.Outcome == backend.Refused) == (i == 7), "%s is %v: rule violated: a lease that was taken over is refused, and only that", a.Election, a.Outcome)
		}
	})
}

// Two leases of one process are renewed, and then only one of them, as when the function of the other hangs.
func TestALeaseThatIsNotRenewedExpires(t *testing.T) {
	for _, n := range []int{1, 5, 100} { // how many go on
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b, c := w.start("a"), w.start("b"), w.start("c")
				leases := a.leadsAll(longNames(n+1, 10))
				a.goesOn(10*time.Second, "nothing has happened", leases...)
				hangs, others := leases[n], leases[:n]
				w.meanwhile(func() { a.goesOn(40*time.Second, "another lease of its process has expired", others...) })
				w.meanwhile(func() { c.neverGets(others[0].Election, 30*time.Second, "it is renewed") })
				time.Sleep(time.Second)
				b.waits(hangs.Election, ttl, "a lease expires though its session goes on")
				time.Sleep(time.Minute)
			})
		})
	}
}

// Leases are renewed apart at different times, and the session is lost meanwhile.
func TestLeasesRenewedApartKeepTheirTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		leases := a.leadsAll(longNames(6, 10))
		early, late := leases[:3], leases[3:]
		for i := range 10 {
			w.meanwhile(func() { b.neverGets(leases[i%6].Election, 2*time.Second, "it is renewed") })
			a.goesOn(ttl/3, "they are renewed in turn", early...)
			a.goesOn(ttl/3, "they are renewed in turn", late...)
			if i%3 == 2 {
				w.store.Delete(a.session())
			}
		}
	})
}

// The session is lost, and only one of two leases goes on under the next one.
func TestALeaseThatWasNotMovedExpires(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		leases := a.leadsAll(longNames(2, 10))
		w.store.Delete(a.session())
		w.meanwhile(func() { a.goesOn(20*time.Second, "it goes on under another session", leases[0]) })
		time.Sleep(time.Second)
		b.waits(leases[1].Election, ttl, "a session renews only the leases that were moved to it")
	})
}

// A process that closes while it holds a lease leaves its session: its challengers do not begin anew.
func TestClosingDoesNotDisturbAWatch(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("jobs")
		w.meanwhile(func() {
			time.Sleep(ttl / 2)
			a.b.Close()
		})
		b.waits("jobs", ttl, "a session that was left is watched on")
	})
}

// The terms of many elections are over: that is one line.
func TestManyStaleRequestsAreOneLine(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		var requests []backend.Request
		for _, l := range a.leadsAll(longNames(200, 10)) {
			requests = append(requests, backend.Request{Election: l.Election, Term: l.Term - 1, Kind: backend.Depose})
		}
		err := a.b.Request(w.Context(), requests)
		if !errors.Is(err, backend.ErrStale) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
			w.Errorf("%.300q of %d bytes", err, len(err.Error()))
		}
	})
}
