package beside_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/besidetest"
	"github.com/go-election/go-election/conformance/leasetest"
)

const threshold = 15 * time.Second // of other programs, of which none takes part in the suite

// store is a store in memory and a table in memory, as mend changes the clients of both.
func store(mend func(beside.Inner, beside.Lock) backend.Backend) conformance.Store {
	inner, table := leasetest.NewStore(), newTable(threshold)
	return conformance.Store{
		Open: func(testing.TB) backend.Backend { return mend(bare{lease.New(inner.Driver())}, table.Lock()) },
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				table.Delete(election)
				return nil
			},
		},
	}
}

// A bare inner Backend has no servers of which it could say anything.
type bare struct{ *lease.Backend }

func (b bare) Preflight(_ context.Context, bids []backend.Bid) []error {
	return slices.Repeat([]error{b.Enter(bids[0].Candidate.Nonce)}, len(bids))
}

func (bare) Inspect(context.Context, time.Duration, time.Duration) ([]backend.Diagnostic, error) {
	return nil, nil
}

func whole(inner beside.Inner, lock beside.Lock) backend.Backend {
	return beside.New("besidetest", inner, lock, threshold)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true,
		NewStore: func(testing.TB) conformance.Store { return store(whole) },
	})
}

// place is a fresh table, as mend changes its clients.
func place(mend func(beside.Lock) beside.Lock) besidetest.Harness {
	table := newTable(10 * time.Second)
	return besidetest.Harness{
		Open:      func(testing.TB) beside.Lock { return mend(table.Lock()) },
		Run:       func(_ testing.TB, election, program string) bool { return table.Run(election, program) },
		Threshold: table.Threshold,
	}
}

func TestTheReferenceObeysTheRules(t *testing.T) {
	for _, r := range besidetest.Rules {
		t.Run(r.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r.Test(besidetest.NewLab(t, place(func(l beside.Lock) beside.Lock { return l })))
			})
		})
	}
}
