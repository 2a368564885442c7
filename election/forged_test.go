package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// plant gives the lease of x to a holder that never renews.
func plant(t *testing.T, store *memory.Store, ttl, renew time.Duration) (backend.Backend, backend.Lease) {
	t.Helper()
	raw := store.Backend()
	seen, err := raw.Observe(t.Context(), []backend.Lease{{Election: "x"}})
	noError(t, err)
	a, err := raw.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: backend.Candidate{ID: "r", Nonce: backend.NewNonce()}, TTL: ttl, Renew: renew, Expected: seen[0]}})
	if err != nil || a[0].Outcome != backend.Granted {
		t.Fatal(a, err)
	}
	return raw, a[0].Lease
}

// A forged record has durations of centuries. They must neither free the lease nor stop followers from reading.
func TestHugeDurationsInTheStoreDoNoHarm(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	inBubble(t, "an enormous TTL", func(t *testing.T) {
		store := memory.New()
		plant(t, store, 1<<63-1, 3*time.Second)
		e := alone(t, polled{store.Backend()}, Options{})
		e.Lead(nil)
		time.Sleep(24 * time.Hour)
		if e.Leading() {
			t.Error("took over a lease of centuries within a day")
		}
	})
	inBubble(t, "an enormous Renew", func(t *testing.T) {
		store := memory.New()
		raw, held := plant(t, store, century, century-time.Hour)
		e := alone(t, polled{store.Backend()}, Options{})
		e.Lead(nil)
		time.Sleep(time.Second)
		again := backend.Bid{Election: "x", Candidate: held.Holder, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: held}
		if a, err := raw.Acquire(t.Context(), []backend.Bid{again}); err != nil || a[0].Outcome != backend.Granted { // an operator repairs the record, and then its holder crashes
			t.Fatal(a, err)
		}
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("a minute after the last renewal of a lease of 10 s nobody leads")
		}
	})
}

// A forged term above the limit must not count as the highest term, or it would block elections after
// the record was repaired.
func TestAForgedTermIsIgnored(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	other := backend.Candidate{ID: "other", Nonce: "theirs"}
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: other, Term: 1<<63 + 5, Version: "1", TTL: 10 * time.Second, ObserveFor: 10 * time.Second})
	if e.reported.kind == Elected || e.highestTerm != 0 {
		t.Errorf("told %v, greatest term %d", e.reported.event(e.name), e.highestTerm)
	}
}

// A forged record says that its holder renews every nanosecond.
func TestATinyRenewDoesNotMakeFollowersPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		plant(t, store, time.Hour, 1)
		s := &script{Backend: polled{store.Backend()}}
		m := manage(t, s, Options{})
		joined(t, m, "x")
		time.Sleep(10 * time.Second)
		if n := s.n[callObserve].Load(); n > 250 {
			t.Errorf("%d readings in 10 s", n)
		}
	})
}
