package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// meta is the key of the meta item.
var meta = lease.Key{Kind: lease.Metas}

// The leader's record is deleted while it trusts its lease. Another process has read it before.
func TestADeletedRecordIsWatchedForTheGreatestTTL(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		b.sees("jobs")
		w.store.Delete(recordOf("jobs"))
		a.isRefused(l, "a lease without a record is not renewed")
		b.waits("jobs", greatestTTL, "a deleted record is no vacancy")
	})
}

// Nobody but the leader has read the record when it is deleted: only the count tells.
func TestADeletionIsNoticedByTheCount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start("a").leads("jobs")
		w.store.Delete(recordOf("jobs"))
		b := w.start("b")
		b.waits("jobs", greatestTTL, "a process that has not read the record must count the records")
	})
}

// While a record is missing, no election without a record is free at once, because nobody knows
// which of them was deleted. The process that has waited counts anew, and then all others are free.
func TestADeletionIsForgottenAfterTheGreatestTTL(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start("a").leads("jobs")
		w.store.Delete(recordOf("jobs"))
		b, c := w.start("b"), w.start("c")
		b.waits("other", greatestTTL, "any election may be the one that was deleted")
		c.waits("third", 0, "deletions are older than the greatest TTL, and no longer counted")
		c.waits("jobs", 0, "deletions are older than the greatest TTL, and no longer counted")
	})
}

// The record is deleted twice. The first time the next term jumps. The second deletion is no longer
// counted when a process leads that has known none of this. The meta item may be deleted as well, and made again before.
func TestTermsGrowAfterADeletionIsForgotten(t *testing.T) {
	for _, metaToo := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.start("a").leads("jobs")
			w.store.Delete(recordOf("jobs"))
			b := w.start("b")
			b.waits("jobs", greatestTTL, "a deleted record is no vacancy")
			w.store.Delete(recordOf("jobs"))
			watch := greatestTTL
			if metaToo {
				w.store.Delete(meta)
				watch = w.store.Limits.MaxTTL // nobody knows which TTL was the greatest
			}
			w.start("c").waits("other", watch, "any election may be the one that was deleted")
			w.start("d").waits("jobs", 0, "deletions are older than the greatest TTL, and no longer counted")
		})
	}
}

// c read the election before anybody led it, and reads it again only after it was led and deleted a second time.
func TestARecordDeletedTwiceIsWatchedTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		a.leads("jobs")
		w.store.Delete(recordOf("jobs"))
		seen := c.sees("jobs")
		b.waits("jobs", greatestTTL, "a deleted record is no vacancy")
		w.store.Delete(recordOf("jobs"))
		answers, err := c.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "a watch of the first absence counts for the second: %v, %v", answers, err)
		c.waits("jobs", greatestTTL, "each deletion begins the watch anew")
	})
}

// Without the meta item leases go on, and a deleted record that was read is watched for as long as any lease may last.
func TestADeletedMetaItemEndsNoLeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		b.sees("jobs")
		w.store.Delete(meta)
		a.goesOn(time.Minute, "renewals do not need the meta item", l)
		go a.goesOn(w.store.Limits.MaxTTL+ttl, "renewals do not need the meta item", l)
		w.start("c").waits("other", w.store.Limits.MaxTTL, "nobody knows whether other had a record")
		time.Sleep(2 * ttl)
		a.goesOn(ttl, "renewals do not need the meta item", l)
		w.store.Delete(recordOf("jobs"))
		b.waits("jobs", w.store.Limits.MaxTTL, "nobody knows the greatest TTL that was granted")
	})
}

// c has only a bid on its way when the meta item is deleted, and makes it again to stop that bid.
func TestAStoppedBidForgetsNoTTL(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		a.ttl = greatestTTL
		a.leads("jobs")
		c.leads("third") // so that it has a session
		w.store.Delete(meta)
		c.wire.loses = request
		c.bids(c.sees("other")) // without an answer
		c.releases(backend.Lease{Election: "other"})
		b.leads("other")
		w.store.Delete(recordOf("jobs"))
		b.waits("jobs", w.store.Limits.MaxTTL, "nobody knows the greatest TTL that was granted")
	})
}

// An operator deletes everything. b has read the lease, and knows for how long it lasts.
func TestAllItemsDeletedAreWatchedByWhoReadThem(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.ttl = time.Minute
		b.sees("jobs")
		a.releases(a.leads("jobs"))
		b.sees("jobs")
		a.ttl = 2 * time.Minute
		a.leads("jobs")
		b.sees("jobs") // it does not read the meta item once more
		for _, k := range []lease.Key{recordOf("jobs"), recordOf("first"), meta, a.session()} {
			w.store.Delete(k)
		}
		b.waits("jobs", 2*time.Minute, "a process remembers the TTLs that it has read")
	})
}

// The session may be deleted at any time, by the store or by an operator.
func TestALostSessionEndsNoLeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l, m := a.leads("jobs"), a.leads("more")
		w.meanwhile(func() {
			for range 20 {
				time.Sleep(5 * time.Second)
				w.store.Delete(a.session())
			}
		})
		w.meanwhile(func() { b.neverGets("more", 90*time.Second, "a missing session frees nothing") })
		a.goesOn(100*time.Second, "its leases go on under another session", l, m)
	})
}

// The leader is dead and its session is gone.
func TestAMissingSessionIsWatchedLikeAnyOther(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		a.leads("jobs")
		w.store.Delete(a.session())
		b.waits("jobs", ttl, "a missing session frees nothing")
	})
}

// b reads at the beginning, and once more a TTL later. Meanwhile the leader has renewed, its
// session was deleted, and a late copy of its creation brought the heartbeat back that b had seen.
func TestALateCreationOfASessionIsNotTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		creation := a.wire.history[0]
		seen := b.sees("jobs")
		a.goesOn(ttl, "nothing has happened", l)
		w.store.Delete(a.session())
		creation()
		w.want(a.wire.last.Results[0].Outcome == backend.Granted, "the copy was refused, so this test shows nothing")
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Refused, "the heartbeat of another creation counts as unrenewed: %v, %v", answers, err)
	})
}

// An operator shortens the TTL, or names another holder.
func TestAnEditedRecordIsRenewedByNobody(t *testing.T) {
	for what, edit := range map[string]func(string) string{
		"another TTL":    func(text string) string { return strings.Replace(text, `"ttl":"9s"`, `"ttl":"1s"`, 1) },
		"another holder": func(text string) string { return strings.Replace(text, `"id":"a"`, `"id":"b"`, 1) },
		"no holder":      func(text string) string { return strings.Replace(text, `"id":"a","nonce"`, `"last_id":"a","was"`, 1) },
		"the same":       func(text string) string { return text },
		"no text":        func(string) string { return "" },
		"another term":   func(text string) string { return strings.Replace(text, `"term":`, `"term":1`, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.start("a"), w.start("b")
				l := a.leads("jobs")
				w.store.Edit(recordOf("jobs"), edit)
				a.isRefused(l, "no session renews a record that was edited")
				b.waits("jobs", greatestTTL, "an edited record is watched for the greatest TTL")
			})
		})
	}
}

// The record of one election is copied to the name of another.
func TestACopiedRecordIsNobodysLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		text := w.store.Text(recordOf("jobs"))
		w.store.Edit(recordOf("copy"), func(string) string { return text })
		l.Election = "copy"
		a.isRefused(l, "a record that names another election is nobody's lease")
		b.waits("copy", greatestTTL, "a copied record is watched for the greatest TTL")
	})
}

// The record of an earlier leader is put back while another one leads.
func TestARecordThatWasPutBackRevivesNoLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.start("a"), w.start("b"), w.start("c")
		l := a.leads("jobs")
		before := w.store.Text(recordOf("jobs"))
		a.releases(l)
		m := b.leads("jobs")
		w.store.Edit(recordOf("jobs"), func(string) string { return before })
		a.isRefused(l, "a record that was put back is not renewed")
		b.isRefused(m, "the lease is gone")
		w.meanwhile(func() { c.waits("jobs", greatestTTL, "a record that was put back is watched for the greatest TTL") })
		_, _, granted := a.challenges("jobs", greatestTTL-time.Second)
		w.want(!granted, "the holder that the text names is granted its lease at once")
		time.Sleep(2 * time.Second)
	})
}

// An operator asks a leader to hand over: the record changes, and the leader goes on until it consents.
func TestARequestDoesNotInterruptALeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		seen := b.sees("jobs")
		q := backend.Request{Election: "jobs", Term: l.Term, Kind: backend.Nominate, ID: "b"}
		testbed.NoError(w, b.b.Request(w.Context(), []backend.Request{q}))
		w.want(b.sees("jobs").Unchanged(seen), "a request looks like a renewal")
		w.want(a.renews(l)[0].Request == q, "the renewal does not tell of the request")
		w.meanwhile(func() { b.neverGets("jobs", 50*time.Second, "a request frees nothing") })
		a.goesOn(time.Minute, "a request ends nothing", l)
		q.Kind, q.ID = backend.Depose, ""
		testbed.NoError(w, b.b.Request(w.Context(), []backend.Request{q}))
		a.isRefused(l, "a deposed leader is not renewed")
		b.waits("jobs", ttl, "a deposed leader trusts its lease until it expires")
	})
}
