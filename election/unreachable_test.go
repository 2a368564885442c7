package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// A process whose readings fail must not report the last known leader forever, even if the renewals
// of its own leases work: say a proxy sends its readings to a broken replica.
func TestAFollowerThatCannotReadReportsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		eyes := &script{Backend: store.Backend()}
		b := alone(t, store.Backend(), Options{ID: "b"})
		b.Lead(nil)
		time.Sleep(time.Second)
		x := alone(t, eyes, Options{ID: "a"})
		a, mine := x.manager, joined(t, x.manager, "mine")
		mine.Lead(nil)
		var told []Event
		x.Watch(func(e Event) { told = append(told, e) })
		time.Sleep(30 * time.Second)
		eyes.fail(errDown, callObserve)
		closes(t, b.manager)
		time.Sleep(time.Minute)
		if who, _, ok := x.Leader(); ok {
			t.Errorf("%q left a minute ago, no reading has worked since, and it is still reported as the leader", who.ID)
		}
		if s := a.Status(); !s.Unreachable || s.Err == nil {
			t.Errorf("the status is reachable, %v; want unreachable, and why", s.Err)
		}
		if !mine.Leading() {
			t.Error("its own lease, which is renewed, was given up")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		before := len(told)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if now, last := len(told), told[len(told)-1]; now != before || last.Reason != ReasonUnreachable {
			t.Errorf("told %d times and then %d times, last %+v; want once, and that the store is unreachable", before, now, last)
		}
		eyes.heal()
		time.Sleep(time.Minute)
		if _, _, ok := x.Leader(); ok || a.Status().Unreachable {
			t.Errorf("once it can read again: Leader() %v, unreachable %v; want nobody, and reachable", ok, a.Status().Unreachable)
		}
	})
}

// The last reading fails, and then this process wins every election that it has joined. It reads
// nothing from then on, so only its renewals show that the store works.
func TestALeaderOfAllElectionsIsNotUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		eyes, other := &script{Backend: polled{store.Backend()}}, &script{Backend: store.Backend()}
		alone(t, other, Options{ID: "b"}).Lead(nil)
		time.Sleep(time.Second)
		x := alone(t, eyes, Options{ID: "a"})
		x.Lead(nil)
		time.Sleep(30 * time.Second)
		// The leader is cut off for good. The follower's readings fail 6 s later, during its
		// observation, and work again just after its bid was granted.
		other.fail(backend.ErrUnavailable, writes...)
		time.Sleep(6 * time.Second)
		eyes.fail(errDown, callObserve)
		for range 100 {
			if time.Sleep(100 * time.Millisecond); x.Leading() {
				break
			}
		}
		eyes.heal()
		if !x.Leading() {
			t.Fatal("not elected")
		}
		time.Sleep(time.Hour)
		if s := x.manager.Status(); s.Unreachable || s.Err != nil {
			t.Errorf("an hour later, leading %v and renewing every 3 s: unreachable %v, contact %v ago, %v", x.Leading(), s.Unreachable, s.Contact, s.Err)
		}
		other.heal()
	})
}
