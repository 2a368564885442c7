package lease_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// A record is deleted and an older text of it put back: it is again the first write of its key.
func TestADeletedRecordThatIsPutBackIsAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		a.leads("jobs")
		before := w.store.Text(recordOf("jobs"))
		seen := c.sees("jobs")
		b.waits("jobs", ttl, "a is dead")
		w.store.Delete(recordOf("jobs"))
		w.store.Edit(recordOf("jobs"), func(string) string { return before })
		answers, err := c.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "the record is another one than the one that was watched: %v, %v", answers, err)
	})
}

// An operator deletes the meta item and one record, while others stay.
func TestWithoutACountAllIsWatched(t *testing.T) {
	for what, damage := range map[string]func(w *world){
		"deleted": func(w *world) { w.store.Delete(meta) },
		"damaged": func(w *world) { w.store.Edit(meta, func(string) string { return "?" }) },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start("a").leads("jobs")
				damage(w)
				w.store.Delete(recordOf("jobs"))
				b := w.start("b")
				l := b.sees("jobs")
				w.want(l.ObserveFor > 0, "there are records and no count of them, and an election without a record is free at once")
			})
		})
	}
}

// A bid is on its way. The next one is refused, because a record of another election was deleted meanwhile. Then the first
// one arrives: the record names a process that has forgotten it and renews it with its other leases for ever.
func TestARefusedBidLeavesNothingOnItsWay(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		other := a.leads("other")
		a.leads("victim")
		w.store.Delete(recordOf("victim"))
		watched := a.sees("jobs")
		for end := time.Now().Add(watched.ObserveFor); time.Now().Before(end); time.Sleep(ttl / 3) {
			a.renews(other)
		}
		a.wire.loses = request
		answers, err := a.bids(watched)
		w.want(err != nil && answers[0].Outcome == backend.Unknown, "%v %v", answers, err)
		arrive := a.wire.write
		w.store.Delete(recordOf("first"))
		answers, err = a.bids(watched)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "%v %v", answers, err)
		arrive()
		w.want(a.wire.last.Results == nil || a.wire.last.Results[0].Outcome == backend.Refused, "after a refusal an earlier bid is granted")
		go a.goesOn(10*time.Minute, "", other)
		defer time.Sleep(11 * time.Minute)
		_, after, granted := b.challenges("jobs", 5*time.Minute)
		w.want(granted, "b is not granted jobs within %v: nobody leads it, and its record names a process that does not know: %+v, %v", after, a.sees("jobs").Holder.ID, a.sees("jobs").ObserveFor)
	})
}

// A store fails over and loses the newest writes, among them the first grant with a greater
// TTL, and with it the greatest TTL itself.
func TestAFailoverMayLoseTheGreatestTTL(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		a.releases(a.leads("jobs"))
		replica := w.store.Snapshot()
		a.ttl = 2 * time.Minute
		a.leads("jobs")
		w.store.Restore(replica, "2")
		w.store.Limits.Loses = true
		b := w.start("b")
		b.challenges("jobs", time.Minute)
	})
}

// A reversed driver reads items one after the other, the last key first.
type reversed struct {
	lease.Driver
	between func()
}

func (d *reversed) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	items := make([]lease.Item, len(keys))
	for i := len(keys) - 1; i >= 0; i-- {
		one, err := d.Driver.Read(ctx, keys[i:i+1])
		if err != nil {
			return v, err
		}
		if d.between != nil && keys[i].Kind == lease.Metas {
			d.between()
		}
		items[i], v.Epoch = one.Items[0], one.Epoch
		if keys[i].Kind == lease.Metas {
			v.Records = one.Records
		}
	}
	v.Items = items
	return v, nil
}

// A driver reads the meta item before the record.
func TestTheCountIsReadAfterTheRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		d := &reversed{Driver: b.wire}
		b.b = lease.New(d)
		b.leads("other")
		seen := b.sees("jobs")
		a.leads("jobs")
		d.between = sync.OnceFunc(func() { w.store.Delete(recordOf("jobs")) })
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "a record that was deleted between two readings of one call is free at once: %v, %v", answers, err)
	})
}

// A newer program has written a request, and a field that this one does not know.
func TestAFieldOfANewerProgramIsNoHarm(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		l := a.leads("jobs")
		w.store.Edit(recordOf("jobs"), func(text string) string {
			return strings.Replace(text, `"write":1,`, `"write":2,"newer":true,`, 1)
		})
		a.goesOn(ttl, "the record is as it was granted", l)
	})
}

// Another program has given the store a newer layout.
func TestANewerLayoutIsNotOverwritten(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		a.releases(a.leads("jobs"))
		l := a.sees("jobs")
		w.store.Edit(meta, func(text string) string { return strings.Replace(text, `"layout":1`, `"layout":2`, 1) })
		a.ttl = 2 * time.Minute
		a.bids(l)
		w.want(strings.Contains(w.store.Text(meta), `"layout":2`), "the meta item of a newer layout was overwritten: %s", w.store.Text(meta))
	})
}

type longTexts struct{ lease.Driver }

func (d longTexts) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.Driver.Read(ctx, keys)
	for i := range v.Items {
		if v.Items[i].Version != "" {
			v.Items[i].Version = strings.Repeat("é", 240) + v.Items[i].Version
		}
	}
	v.Epoch = strings.Repeat("世", 100)
	return v, err
}

// Versions of items are opaque and may be long.
func TestVersionsFitAndDiffer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start("a").leads("jobs")
		b := w.start("b")
		b.b = lease.New(longTexts{w.store.Driver()})
		l := b.sees("jobs")
		w.want(len(l.Version) <= 600, "a Version has %d bytes", len(l.Version))
		w.store.Edit(recordOf("jobs"), func(s string) string { return s })
		w.want(b.sees("jobs").Version != l.Version, "the record was written again, and its Version is the same")
	})
}

// A record of a that was put back is written again with a request. a has found out and released what it was granted;
// its session goes on, and must not renew that record.
func TestARecordThatWasPutBackAndAskedIsRenewedByNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		l, m := a.leads("jobs"), a.leads("others")
		was := w.store.Text(recordOf("jobs"))
		a.releases(l)
		l = a.leads("jobs")
		w.store.Edit(recordOf("jobs"), func(string) string { return was })
		a.isRefused(l, "the record is not as it was granted")
		testbed.NoError(t, c.b.Request(w.Context(), []backend.Request{{Election: "jobs", Term: c.sees("jobs").Term}}))
		a.releases(l)
		w.meanwhile(func() { a.goesOn(2*greatestTTL, "nothing was done to it", m) })
		b.waits("jobs", greatestTTL, "the record is renewed by nobody")
	})
}

// While several deleted elections are watched, one that is led again does not make the others wait anew.
func TestDeletedElectionsAreWatchedSeparately(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		a.leads("one", "two")
		for _, name := range []string{"one", "two"} {
			w.store.Delete(recordOf(name))
			a.distrusts(name)
		}
		watched := b.sees("two")
		w.want(watched.ObserveFor > 0, "a deleted election is free at once: %+v", watched)
		answers, err := c.bids(c.sees("one")) // as if it had watched it
		w.want(err == nil && answers[0].Outcome == backend.Granted, "a bid for a deleted election: %v, %v", answers, err)
		if now := b.sees("two"); !now.Unchanged(watched) && now.ObserveFor > 0 {
			w.Errorf("after another deleted election was led: %+v after %+v; want the watch to continue, or a free lease, since that one was watched", now, watched)
		}
		w.store.Delete(recordOf("one"))
		w.want(!b.sees("two").Unchanged(watched), "another election was deleted, which may have been this one, and its watch continues")
	})
}

// b has read that there is no record. Its bid arrives after a's grant, whose record was deleted since: only the meta item
// shows that.
func TestALateFirstBidGrantsNothing(t *testing.T) {
	for _, before := range []string{"no record before", "a record before"} {
		t.Run(before, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, store: leasetest.NewStore()}
				a, b := w.start("a"), w.start("b")
				testbed.NoError(w, b.b.Announce(w.Context(), backend.Member{Candidate: b.me, TTL: ttl})) // it has a session
				if before == "a record before" {
					a.leads("other")
				}
				seen := b.sees("jobs")
				b.wire.before = func() {
					a.leads("jobs")
					w.store.Delete(recordOf("jobs"))
				}
				answers, err := b.bids(seen)
				w.want(err == nil && answers[0].Outcome == backend.Refused, "a late first bid: %v, %v", answers, err)
			})
		})
	}
}
