package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
)

// TestConformance runs the suite that every backend must pass, in virtual time. Package conformance runs it on a store
// in memory that must be polled.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{Virtual: true, NewStore: func(testing.TB) conformance.Store {
		store := memory.New()
		return conformance.Store{Open: func(testing.TB) backend.Backend { return store.Backend() }}
	}})
}

// A manager cleans the text that it reads and remembers the clean lease. If the store
// compared that with the hostile text, it would report a change at every read, and the
// manager would read without a pause.
func TestHostileTextIsReportedAsAChangeOnce(t *testing.T) {
	store := memory.New()
	b := store.Backend()
	evil := backend.Candidate{ID: "a\x1b]0;\u202e", Nonce: backend.NewNonce(), Metadata: "\xff"}
	seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: evil, TTL: time.Hour, Renew: time.Hour, Expected: seen[0]}}); err != nil {
		t.Fatal(err)
	}
	reader := store.Backend()
	news, err := reader.Observe(t.Context(), seen)
	if err != nil || len(news) != 1 {
		t.Fatal(news, err)
	}
	news[0] = clean.Lease(news[0])
	if again, err := reader.Observe(t.Context(), news); err != nil || len(again) > 0 {
		t.Errorf("expected no change of the same lease, got %v, %v", again, err)
	}
}

// elect has a candidate win "jobs", and returns its client and the lease.
func elect(t *testing.T, store *memory.Store) (backend.Backend, backend.Lease) {
	t.Helper()
	b, me := store.Backend(), backend.Candidate{ID: "me", Nonce: backend.NewNonce()}
	seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := b.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: me, TTL: time.Minute, Renew: time.Second, Expected: seen[0]}})
	if err != nil || answers[0].Outcome != backend.Granted {
		t.Fatal(answers, err)
	}
	return b, answers[0].Lease
}

// A seal that was set since holds for the holder, too.
func TestAHolderMayBidAtOnceUnlessItWasSealed(t *testing.T) {
	store := memory.New()
	b, held := elect(t, store)
	for _, c := range []struct {
		who        string
		b          backend.Backend
		observeFor time.Duration
	}{{"the holder", b, 0}, {"another client", store.Backend(), time.Minute}} {
		now, err := c.b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if err != nil || now[0].ObserveFor != c.observeFor {
			t.Errorf("%s must observe the lease for %v, want %v: %v", c.who, now[0].ObserveFor, c.observeFor, err)
		}
	}
	seal := held
	seal.MovedTo = "elsewhere"
	if a, err := b.(backend.Marker).Mark(t.Context(), []backend.Held{seal.Held()}); err != nil || a[0].Outcome != backend.Granted {
		t.Fatal(a, err)
	}
	bid := backend.Bid{Election: "jobs", Candidate: held.Holder, TTL: time.Minute, Renew: time.Second, Expected: held}
	if a, err := b.Acquire(t.Context(), []backend.Bid{bid}); err != nil || a[0].Outcome != backend.Refused {
		t.Errorf("expected a bid that has not seen the seal to be refused, got %v, %v", a, err)
	}
}

func TestARequestForAnElectionNeverLedIsStale(t *testing.T) {
	b := memory.New().Backend()
	if err := b.Request(t.Context(), []backend.Request{{Election: "jobs", Kind: backend.Nominate, ID: "me"}}); !errors.Is(err, backend.ErrStale) {
		t.Errorf("expected ErrStale, got %v", err)
	}
	if list, err := b.List(t.Context(), "", 10); err != nil || len(list) > 0 {
		t.Errorf("expected no record, got %v, %v", list, err)
	}
}

func TestListReturnsCopies(t *testing.T) {
	b, held := elect(t, memory.New())
	held.End = backend.Released
	if err := b.Release(t.Context(), []backend.Held{held.Held()}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		list, err := b.List(t.Context(), "", 10)
		if err != nil || list[0].History[0].ID != "me" {
			t.Fatalf("the caller has changed the history in the store: %v, %v", list, err)
		}
		list[0].History[0].ID = "changed"
	}
}
