package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance/leasetest"
)

// A driver allows values above 1 MiB, which Decode does not read. The session of a leader of
// many elections is written, and nobody can read its heartbeats: its leases look unrenewed.
func TestAHugeSessionIsStillRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: leasetest.NewStore()}
		w.store.Limits.MaxValue, w.store.Limits.Batch, w.store.Limits.Checks = 16<<20, 400, 399
		a, b := w.start("a"), w.start("b")
		names := longNames(8400, 250)
		leases := a.leadsAll(names)
		a.goesOn(1, "", leases...)
		go func() {
			for range 5 {
				a.renews(leases[:4200]...)
				time.Sleep(ttl / 3)
			}
		}()
		time.Sleep(time.Millisecond)
		b.neverGets(names[0], ttl+ttl/3, "a leader renews")
		time.Sleep(time.Minute)
	})
}

// The session would become larger than the store allows. The leases must go on under another
// generation; instead the session is adopted again and again.
func TestALargeSessionIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: leasetest.NewStore()}
		w.store.Limits.MaxValue, w.store.Limits.Batch, w.store.Limits.Checks = 64<<10, 400, 399
		a := w.start("a")
		leases := a.leadsAll(longNames(1000, 200))
		a.renews(leases...)
		for range 3 {
			a.renews(leases[:500]...) // 500 others are listed apart: more than 64 KiB
			time.Sleep(ttl / 3)
		}
	})
}

// A session is deleted, a late copy of its creation makes it again, its process adopts it and
// renews, and it is deleted again. A challenger that read before and after sees it missing twice.
func TestASessionMadeByALateCopyEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		creation := a.wire.history[0]
		w.store.Delete(a.session())
		seen := b.sees("jobs")
		time.Sleep(ttl - time.Second)
		creation()
		a.renews(l)
		w.store.Delete(a.session())
		time.Sleep(time.Second)
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "the session is missing as before, and was renewed between: %v, %v", answers, err)
	})
}

// An operator puts back an older text of a session.
func TestASessionThatWasPutBackRenewsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		before := w.store.Text(a.session())
		seen := b.sees("jobs")
		time.Sleep(ttl - time.Second)
		a.renews(l)
		w.store.Edit(a.session(), func(string) string { return before })
		time.Sleep(time.Second)
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "an older heartbeat was put back: %v, %v", answers, err)
	})
}
