package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A listener delivers what it is told when the test wants.
type listener struct {
	*wire
	calls int
	known int
	on    func(items []lease.Item, position uint64) bool
	fail  bool
}

func (l *listener) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	return l.wire.Driver.Read(ctx, keys)
}

func (l *listener) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	l.calls++
	l.known = len(known)
	l.on = on
	if l.fail {
		return nil
	}
	return l.wire.Driver.(lease.Listener).Listen(ctx, position, known, on)
}

// A listener delivers an item of before the store went back, after a reading has noticed that.
func TestItemsOfALostHistoryAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		heard := &listener{wire: b.wire}
		b.b = lease.New(heard)
		l := a.leads("jobs")
		replica := w.store.Snapshot()
		for range 30 {
			a.renews(l)
			time.Sleep(time.Millisecond)
		}
		v, err := w.store.Driver().Read(w.Context(), []lease.Key{a.session()})
		testbed.NoError(w, err)
		late := v.Items[0]
		seen := b.sees("jobs")
		b.hears(seen)
		w.store.GoBack(replica)
		b.sees("jobs") // notices it
		on := heard.on
		l = a.waits("jobs", greatestTTL, "the store went back") // a leads again, in the history that counts
		b.sees("jobs")
		on([]lease.Item{late}, late.Order)
		a.renews(l)
		// Now a is dead.
		watched, since, n := b.sees("jobs"), time.Now(), 0
		for range 40 * 4 {
			time.Sleep(ttl / 4)
			got, err := b.b.Observe(w.Context(), []backend.Lease{watched})
			testbed.NoError(w, err)
			for _, now := range got {
				if !now.Unchanged(watched) {
					watched, since = now, time.Now()
					n++
				}
			}
			if time.Since(since) >= watched.ObserveFor {
				return
			}
		}
		w.Errorf("a has been dead for 40 TTLs, and b sees a renewal with each reading: %d", n)
	})
}

// The store cannot tell what came after the position, as after a compaction.
func TestAListenerThatCannotTellIsNoLoop(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		heard := &listener{wire: b.wire}
		b.b = lease.New(heard)
		a.leads("jobs")
		seen := b.sees("jobs")
		w.store.Edit(lease.Key{Kind: lease.Sessions, Name: "x"}, func(string) string { return "{}" })
		w.store.Restore(w.store.Snapshot(), "1") // forgets what it could tell
		returned := 0
		for range 50 {
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
			if err := b.b.Listen(ctx, []backend.Lease{seen}); err == nil {
				returned++
			}
			cancel()
			b.b.Observe(w.Context(), []backend.Lease{seen}) // as the manager does after each return
		}
		w.want(returned <= 2, "Listen has returned at once %d times of 50, though nothing has changed", returned)
	})
}

// A bid was granted, and the answer lost. The cache still has the vacancy of before.
func TestObserveGoesNeverBack(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.releases(a.leads("jobs"))
		b.leads("other")
		seen := b.sees("jobs")
		b.wire.loses = answer
		b.bids(seen)
		older := 0
		for range 20 {
			got, err := b.b.Observe(w.Context(), []backend.Lease{seen})
			testbed.NoError(w, err)
			for _, l := range got {
				if l.Term < seen.Term {
					older++
				}
				seen = l
			}
		}
		w.want(older == 0, "Observe has answered %d times with an older term than before", older)
	})
}

// b's bid was lost, so it may hold the election, and listens to another one. What it is told of the
// record then must not leave an older one behind.
func TestARecordOfAnElectionThatMayBeHeldIsNotRememberedAsItWas(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		b.b = lease.New(&listener{wire: b.wire})
		c.releases(c.leads("jobs"))
		b.leads("mine")
		seen := b.sees("jobs")
		b.wire.loses = request
		b.bids(seen)

		l, m := a.leads("jobs"), a.leads("others")
		b.sees("jobs")
		x := b.sees("first")
		b.hears(x)
		a.releases(l)
		now := c.leads("jobs")
		a.renews(m)
		synctest.Wait()
		got, err := b.b.Observe(w.Context(), []backend.Lease{l})
		w.want(err == nil && len(got) == 1 && got[0].Term == now.Term, "b observes %+v, %v: rule violated: c leads in term %d", got, err, now.Term)
	})
}
