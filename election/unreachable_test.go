package election

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// unreadable is a store whose readings fail while active is set, as behind a proxy that sends them to
// a broken replica.
type unreadable struct {
	backend.Backend
	active atomic.Bool
}

func (b *unreadable) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if b.active.Load() {
		return nil, fmt.Errorf("%w: the server is read-only", backend.ErrUnavailable)
	}
	return b.Backend.Observe(ctx, seen)
}

// A process whose readings fail must not report the last known leader forever, even if the renewals
// of its own leases work.
func TestAFollowerThatCannotReadReportsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		eyes := &unreadable{Backend: store.Backend()}
		a, b := manage(t, eyes, Options{ID: "a"}), manage(t, store.Backend(), Options{ID: "b"})
		joined(t, b, "x").Lead(nil)
		time.Sleep(time.Second)
		mine, x := joined(t, a, "mine"), joined(t, a, "x")
		mine.Lead(nil)
		var mu sync.Mutex
		var told []Event
		x.Watch(func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		})
		count := func() (n int, last Event) {
			mu.Lock()
			defer mu.Unlock()
			return len(told), told[len(told)-1]
		}
		time.Sleep(30 * time.Second)
		eyes.active.Store(true)
		closes(t, b)
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
		before, _ := count()
		time.Sleep(10 * time.Minute)
		if now, last := count(); now != before || last.Reason != ReasonUnreachable {
			t.Errorf("told %d times and then %d times, last %+v; want once, and that the store is unreachable", before, now, last)
		}
		eyes.active.Store(false)
		time.Sleep(time.Minute)
		if _, _, ok := x.Leader(); ok || a.Status().Unreachable {
			t.Errorf("once it can read again: Leader() %v, unreachable %v; want nobody, and reachable", ok, a.Status().Unreachable)
		}
		closes(t, a)
	})
}

// The last reading fails, and then this process wins every election that it has joined. It reads
// nothing from then on, so only its renewals show that the store works.
func TestALeaderOfAllElectionsIsNotUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		eyes := &unreadable{Backend: polled{store.Backend()}}
		other := &script{Backend: store.Backend()}
		b := manage(t, other, Options{ID: "b"})
		joined(t, b, "x").Lead(nil)
		time.Sleep(time.Second)
		a := manage(t, eyes, Options{ID: "a"})
		x := joined(t, a, "x")
		x.Lead(nil)
		time.Sleep(30 * time.Second)
		// The leader is cut off for good. The follower's readings fail 6 s later, during its
		// observation, and work again just after its bid was granted.
		down := func(context.Context, []backend.Held) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
		other.set(func() {
			other.renew = down
			other.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			other.release = func(context.Context, []backend.Held) error { return backend.ErrUnavailable }
		})
		time.Sleep(6 * time.Second)
		eyes.active.Store(true)
		for range 100 {
			if time.Sleep(100 * time.Millisecond); x.Leading() {
				break
			}
		}
		eyes.active.Store(false)
		if !x.Leading() {
			t.Fatal("not elected")
		}
		time.Sleep(time.Hour)
		if s := a.Status(); s.Unreachable || s.Err != nil {
			t.Errorf("an hour later, leading %v and renewing every 3 s: unreachable %v, contact %v ago, %v", x.Leading(), s.Unreachable, s.Contact, s.Err)
		}
		other.set(func() { other.renew, other.acquire, other.release = nil, nil, nil })
		closes(t, a, b)
	})
}
