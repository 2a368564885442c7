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

// listens begins to listen to a lease, and returns what reports whether Listen has returned.
func (p *process) listens(seen backend.Lease) (returned func() bool) {
	ctx, cancel := context.WithCancel(p.w.Context())
	done := false
	p.w.meanwhile(func() {
		p.b.Listen(ctx, []backend.Lease{seen})
		done = ctx.Err() == nil
	})
	return func() bool {
		synctest.Wait()
		cancel()
		synctest.Wait()
		return done
	}
}

// hears listens to a lease until the test ends.
func (p *process) hears(seen backend.Lease) {
	go p.b.Listen(p.w.Context(), []backend.Lease{seen})
	synctest.Wait()
}

// What b remembers of one election is old when it begins to listen to another one.
func TestListenMissesNoChangeBeforeTheCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		b.b = lease.New(w.store.Driver()) // which listens
		a.releases(a.leads("one"))
		a.releases(a.leads("two"))
		one, two := b.sees("one"), b.sees("two")
		a.leads("one")
		time.Sleep(time.Minute)
		w.want(!b.listens(two)(), "Listen returns, though nothing has changed in that election")
		w.want(b.listens(one)(), "Listen waits, though the election has a leader since: rule violated: Listen must not miss a change of a record")
	})
}

// b reads another's lease, takes it over without an answer, and reads that. What it remembers of the other's lease is older.
func TestObserveNeverReturnsToWhatItRemembers(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		b.leads("other") // so that it has a session
		a.leads("jobs")
		seen := b.sees("jobs")
		time.Sleep(ttl)
		b.wire.loses = answer
		b.bids(seen)
		own := b.sees("jobs")
		w.want(own.Holder == b.me, "it was not granted, so this test shows nothing")
		changed, err := b.b.Observe(w.Context(), []backend.Lease{own})
		w.want(err == nil && len(changed) == 0, "%v, %v: rule violated: Observe returns no lease that is older than what it returned before", changed, err)
	})
}

// b's reading is under way while another one shows that the lease has a new holder.
func TestALateReadingDoesNotReplaceANewerOne(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		b.wire.unordered = true
		b.leads("other") // so that it has a session
		l := a.leads("jobs")
		seen := b.sees("jobs")
		var now backend.Lease
		b.wire.reading = func() {
			a.releases(l)
			c.leads("jobs")
			answers, err := b.bids(seen)
			w.want(err == nil && answers[0].Holder == c.me, "%v, %v: rule violated: a refused bid tells of the lease", answers, err)
			now = answers[0].Lease
		}
		b.sees("jobs")
		changed, err := b.b.Observe(w.Context(), []backend.Lease{now})
		w.want(err == nil && len(changed) == 0, "%v, %v: rule violated: Observe returns no lease that is older than what it returned before", changed, err)
	})
}

// A hearing is a driver whose test says what is told.
type hearing struct {
	*requests
	on func(items []lease.Item, position uint64) bool
}

func (h *hearing) Listen(ctx context.Context, _ uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	h.on = on
	<-ctx.Done()
	return ctx.Err()
}

// A store tells of no renewals. It tells of a leader with its session, or of that before, or only that something has changed.
func TestALeaderIsToldWithItsSession(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		heard := &hearing{requests: &requests{Driver: w.store.Driver()}}
		b.b = lease.New(heard)
		l := a.leads("jobs")
		seen := b.sees("jobs")
		b.hears(seen)

		told := func(keys ...lease.Key) {
			w.Helper()
			v, err := w.store.Driver().Read(w.Context(), keys)
			testbed.NoError(w, err)
			heard.on(v.Items, v.Position)
		}
		observes := func(leader *process, readings int, why string) {
			w.Helper()
			heard.reads = 0
			got, err := b.b.Observe(w.Context(), []backend.Lease{seen})
			w.want(err == nil && len(got) == 1 && got[0].Holder == leader.me && heard.reads == readings, "%v, %v, by %d readings: rule violated: %s", got, err, heard.reads, why)
			seen = got[0]
		}
		a.releases(l)
		l = c.leads("jobs")
		told(recordOf("jobs"), c.session())
		observes(c, 0, "what was told is not read")

		c.releases(l)
		l = a.leads("jobs")
		told(recordOf("jobs"), a.session())
		heard.on(nil, 100)
		observes(a, 1, "what has changed and was not told is read")

		a.releases(l)
		l = c.leads("jobs")
		told(recordOf("jobs"), c.session())
		observes(c, 0, "what is told after that is not read")

		d := w.start("d")
		d.leads("other") // it has a session
		told(d.session())
		c.releases(l)
		d.leads("jobs")
		told(recordOf("jobs"))
		observes(d, 0, "the session of a candidate, which was told before it led, is not read")
	})
}

// b is only told of c's grant, which the store loses then.
func TestAnOlderTermIsWatchedByWhoWasToldOfMore(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		heard := &hearing{requests: &requests{Driver: w.store.Driver()}}
		b.b = lease.New(heard)
		a.releases(a.leads("jobs"))
		seen, was := b.sees("jobs"), w.store.Snapshot()
		b.hears(seen)

		l := c.leads("jobs")
		v, err := w.store.Driver().Read(w.Context(), []lease.Key{recordOf("jobs"), c.session()})
		heard.on(v.Items, v.Position)
		heard.reads = 0
		got, observeErr := b.b.Observe(w.Context(), []backend.Lease{seen})
		told := err == nil && observeErr == nil && heard.reads == 0 && got[0].Term == l.Term
		w.want(told, "%v, %v, %v: it was not told of the grant, so this test shows nothing", got, err, observeErr)
		w.store.Restore(was, "1")
		b.waits("jobs", greatestTTL, "the store has lost a grant, which somebody may still trust")
	})
}
