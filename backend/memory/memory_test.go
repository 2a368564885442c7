package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
)

// TestConformance runs the suite that every backend must pass, in virtual time. Package conformance runs it on a store
// in memory that must be polled.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{Virtual: true, NewStore: func(testing.TB) conformance.Store {
		store := memory.New()
		return conformance.Store{Open: func(testing.TB) backend.Backend { return store.Backend() }}
	}})
}

// A manager cleans the text that it reads and remembers the clean lease. If the store compared that with the hostile text,
// it would report a change at every read, and the manager would read without a pause.
func TestHostileTextIsReportedAsAChangeOnce(t *testing.T) {
	store := memory.New()
	evil := drivertest.NewCandidate(t, store.Backend(), "a\x1b]0;\u202e", time.Hour)
	evil.Me.Metadata = "\xff"
	seen := evil.Sees("x")
	evil.Leads("x")
	reader := store.Backend()
	news, err := reader.Observe(t.Context(), []backend.Lease{seen})
	if err != nil || len(news) != 1 {
		t.Fatal(news, err)
	}
	news[0] = clean.Lease(news[0])
	if again, err := reader.Observe(t.Context(), news); err != nil || len(again) > 0 {
		t.Errorf("expected no change of the same lease, got %v, %v", again, err)
	}
}

// A seal that was set since holds for the holder, too.
func TestAHolderMayBidAtOnceUnlessItWasSealed(t *testing.T) {
	store := memory.New()
	b := store.Backend()
	holder, other := drivertest.NewCandidate(t, b, "me", time.Minute), drivertest.NewCandidate(t, store.Backend(), "other", time.Minute)
	held := holder.Leads("jobs")
	for c, observeFor := range map[*drivertest.Candidate]time.Duration{holder: 0, other: time.Minute} {
		if now := c.Sees("jobs"); now.ObserveFor != observeFor {
			t.Errorf("%s must observe the lease for %v, want %v", c.Me.ID, now.ObserveFor, observeFor)
		}
	}
	seal := held
	seal.MovedTo = "elsewhere"
	if a, err := b.(backend.Marker).Mark(t.Context(), []backend.Held{seal.Held()}); err != nil || a[0].Outcome != backend.Granted {
		t.Fatal(a, err)
	}
	if a := holder.Bids(held); a.Outcome != backend.Refused {
		t.Errorf("expected a bid that has not seen the seal to be refused, got %v", a)
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
	b := memory.New().Backend()
	me := drivertest.NewCandidate(t, b, "me", time.Minute)
	me.Resigns(me.Leads("jobs"))
	for range 2 {
		list, err := b.List(t.Context(), "", 10)
		if err != nil || list[0].History[0].ID != "me" {
			t.Fatalf("the caller has changed the history in the store: %v, %v", list, err)
		}
		list[0].History[0].ID = "changed"
	}
}
