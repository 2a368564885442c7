package lease_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// The heartbeat is written and its answer is lost. The next renewal goes on from it.
func TestARenewalFollowsOneWhoseAnswerWasLost(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		w.meanwhile(func() { b.neverGets("jobs", 30*time.Second, "it is renewed") })
		for _, f := range []fate{answer, request, twice, answer, twice} {
			a.wire.loses = f
			answers, err := a.b.Renew(w.Context(), []backend.Held{l.Held()})
			w.want(f == twice || err != nil && answers[0].Outcome == backend.Unknown,
				"a renewal without an answer is %v, %v: rule violated: it is neither granted nor refused", answers[0].Outcome, err)
			time.Sleep(time.Second)

			before := a.sees("jobs").Version
			answers, err = a.b.Renew(w.Context(), []backend.Held{l.Held()})
			w.want(err == nil && answers[0].Outcome == backend.Granted, "the lost answer ends nothing: %v, %v", answers[0].Outcome, err)
			w.want(a.sees("jobs").Version != before, "rule violated: a renewal counts only if it has written a heartbeat")
			a.goesOn(ttl/3, "the lost answer ends nothing", l)
		}
		a.goesOn(20*time.Second, "the lost answers end nothing", l)
	})
}

// Late copies of all earlier renewals arrive between the renewals of a leader that then stops.
func TestLateRenewalsDoNotProlongALease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		a.goesOn(20*time.Second, "nothing has happened", l)
		w.meanwhile(func() {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				for _, again := range a.wire.history {
					if again(); a.wire.last.Results[0].Outcome == backend.Granted {
						w.Error("a late copy was applied: rule violated: every write needs the one before")
					}
				}
			}
		})
		b.waits("jobs", ttl, "late copies of renewals renew nothing")
		time.Sleep(10 * time.Second)
	})
}

// A bid is granted, but its answer is lost. Release ends what it may have won.
func TestAReleaseEndsAGrantWithoutAnswer(t *testing.T) {
	for _, led := range []string{"vacant", "never led"} {
		t.Run(led, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.start("a"), w.start("b")
				a.leads("other") // so that it has a session
				if led == "vacant" {
					b.releases(b.leads("jobs"))
				}
				a.wire.loses = answer
				answers, err := a.bids(a.sees("jobs"))
				w.want(err != nil && answers[0].Outcome == backend.Unknown, "a bid without an answer is %v, %v", answers[0].Outcome, err)
				w.want(a.sees("jobs").Holder == a.me, "it was not granted, so this test shows nothing")
				a.releases(backend.Lease{Election: "jobs"})
				b.leads("jobs")
			})
		})
	}
}

// A bid is given up and released, and arrives only then: it must not be granted.
func TestABidThatWasReleasedIsNeverGranted(t *testing.T) {
	for _, now := range []string{"vacant", "never led", "held by another", "deleted"} {
		t.Run(now, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.start("a"), w.start("b")
				a.leads("other") // so that it has a session
				switch now {
				case "vacant":
					b.releases(b.leads("jobs"))
				case "held by another":
					b.leads("jobs")
					a.sees("jobs")
					time.Sleep(ttl)
				case "deleted":
					b.leads("jobs")
					w.store.Delete(recordOf("jobs"))
					seen := a.sees("jobs")
					time.Sleep(seen.ObserveFor)
				}
				a.wire.loses = request
				a.bids(a.sees("jobs"))
				late := a.wire.write
				a.releases(backend.Lease{Election: "jobs"})
				late()
				w.want(a.wire.last.Results[0].Outcome == backend.Refused, "a bid that was released is granted: rule violated: Release leaves nothing on its way")
				w.want(a.sees("jobs").Holder != a.me, "a bid that was released is granted: rule violated: Release leaves nothing on its way")
			})
		})
	}
}

// A renewal comes between a challenger's last reading and its write.
func TestATakeoverNeedsTheSessionAsItWasRead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		b.leads("other") // so that it has a session
		seen := b.sees("jobs")
		time.Sleep(ttl)
		b.wire.before = func() { a.goesOn(time.Millisecond, "nobody has taken it over", l) }
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "%v, %v: rule violated: a takeover needs the session as it was just read", answers, err)
		a.goesOn(ttl, "nobody has taken it over", l)
	})
}

// A takeover comes between the heartbeat's condition and the records'.
func TestARenewalNeedsTheRecordsAsTheyWere(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l, m := a.leads("jobs"), a.leads("more")
		a.wire.before = func() { b.waits("jobs", ttl, "it was not renewed") }
		a.isRefused(l, "a lease that was taken over is not renewed")
		b.goesOn(time.Second, "it took the lease over", b.sees("jobs"))
		a.wire.before = func() { b.waits("more", ttl, "it was not renewed") }
		a.isRefused(m, "a lease that was taken over is not renewed")
	})
}

// b's lease is rewritten by a's release of a bid, while b leads. b goes on.
func TestAStoppedBidDoesNotInterruptTheHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("other")
		l := b.leads("jobs")
		for range 5 {
			a.wire.loses = request
			a.bids(a.sees("jobs"))
			a.releases(backend.Lease{Election: "jobs"})
			b.goesOn(ttl/3, "the holder's record is only written once more", l)
		}
	})
}

// The store has released the lease, but the answer is lost. The manager calls again.
func TestAReleaseMayBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		a.wire.loses = answer
		h := l.Held()
		h.End = backend.Released
		if err := a.b.Release(w.Context(), []backend.Held{h}); err == nil {
			w.Error("a release without an answer counts")
		}
		a.distrusts("jobs")
		m := b.leads("jobs")
		a.releases(l)
		b.goesOn(20*time.Second, "a release leaves another's lease alone", m)
	})
}

// The first copy of a request is applied, and the second is answered.
func TestACopyIsAsGoodAsTheRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("other")
		a.wire.loses = twice
		l := a.leads("jobs")
		a.wire.loses = twice
		a.goesOn(ttl/3, "a copy came first", l)
		a.wire.loses = twice
		a.releases(l)
		b.leads("jobs")
	})
}

// A process is granted a lease, its answer is lost, and it bids again: only the second counts.
func TestALeftoverOfOneselfIsGrantedAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		a.leads("other")
		a.wire.loses = answer
		seen := a.sees("jobs")
		a.bids(seen)
		first := a.sees("jobs")
		answers, err := a.bids(first)
		w.want(err == nil && answers[0].Outcome == backend.Granted && answers[0].Term > first.Term,
			"a leftover in term %d: %v, %v: rule violated: it is granted anew with a new term", first.Term, answers, err)
	})
}

// A record of this process that it does not remember, such as one from before the store went back
// and forth, is not its lease: it is watched like any other.
func TestAnUnknownLeftoverIsNotGrantedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		held := w.store.Snapshot()
		a.releases(l)
		b.leads("jobs")
		w.store.Restore(held, "1") // an operator's mistake: the old server, with its old epoch
		w.want(a.sees("jobs").ObserveFor > 0, "a leftover that was released is free for its former holder")
	})
}

// A halved driver makes half of the changes of a call, and then fails.
type halved struct {
	lease.Driver
	fails bool
}

func (d *halved) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	if !d.fails {
		return d.Driver.Write(ctx, epoch, wentBack, changes, verify)
	}
	half := len(changes) / 2
	w, err := d.Driver.Write(ctx, epoch, wentBack, changes[:half], nil)
	w.Results = append(w.Results, make([]lease.Result, len(changes)-half)...)
	return w, cmp.Or(err, error(backend.ErrUnavailable))
}

// Many leases take several requests. If the second one fails, the rest is still held, and Release must not return nil.
func TestAReleaseThatIsCutShortIsAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		d := &halved{Driver: w.store.Driver()}
		a.b = lease.New(d)
		names := longNames(100, 10)
		leases := a.leadsAll(names)
		var held []backend.Held
		for _, l := range leases {
			h := l.Held()
			h.End = backend.Released
			held = append(held, h)
		}
		d.fails = true
		w.want(a.b.Release(w.Context(), held) != nil, "a release that was cut short has no error")
		d.fails = false
		a.releases(leases...)
		b.leads(names...)
	})
}
